"""The process that grades. Reads one JSON line of requests, writes one JSON line for each verdict.

Started by `slime.rewards.pool` as ``python -m slime.rewards.worker TIME_LIMIT``. It may be killed at any moment: it
holds nothing that another process needs.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

try:
    import resource
except ModuleNotFoundError:  # no memory limit where the system has none (Windows)
    resource = None  # type: ignore[assignment]

from slime.rewards.graders import grade

# An answer that makes the algebra system allocate more is a wrong answer at best.
MEMORY_BYTES = 4 << 30
MAX_REASON = 300
# The parent kills a worker at its time limit. If the parent is gone, the worker ends itself a little later.
GRACE = 2.0
LOADING_SECONDS = 120.0


def serve(time_limit: float) -> None:
    """Answer requests until standard input closes. `time_limit` is in seconds for one response."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    loaded = False

    def load_algebra() -> None:
        # The first import takes a second on a cold disk; it must not count as the answer's own time.
        nonlocal loaded
        if loaded:
            return
        loaded = True
        _reply(["loading"])
        signal.setitimer(signal.ITIMER_REAL, LOADING_SECONDS)
        from slime.rewards import symbolic  # noqa: F401

        _reply(["loaded"])
        signal.setitimer(signal.ITIMER_REAL, time_limit * GRACE)

    for line in sys.stdin.buffer:
        for rm_type, response, label, metadata in json.loads(line):
            signal.setitimer(signal.ITIMER_REAL, time_limit * GRACE)
            try:
                verdict = grade(rm_type, response, label, metadata, on_symbolic=load_algebra)
                _reply(["verdict", verdict.kind, verdict.score, verdict.reason[:MAX_REASON]])
            except (ValueError, MemoryError, RecursionError) as error:
                _reply(["verdict", "grader-error", 0.0, f"{type(error).__name__}: {error}"[:MAX_REASON]])
            signal.setitimer(signal.ITIMER_REAL, 0)


def _reply(message: list[Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes our input
    serve(float(sys.argv[1]))
