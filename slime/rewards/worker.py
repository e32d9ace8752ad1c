"""The process that grades. Reads one JSON line of requests, writes one JSON line for each verdict.

Started by `slime.rewards.pool` as ``python -m slime.rewards.worker TIME_LIMIT``. It may be killed at any moment: it
holds nothing that another process needs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

try:
    import resource
except ModuleNotFoundError:  # no memory limit where the system has none (Windows)
    resource = None  # type: ignore[assignment]

from slime.rewards.graders import grade
from slime.rewards.verdict import Verdict

# An answer that makes the algebra system allocate more is a wrong answer at best.
MEMORY_BYTES = 4 << 30
MAX_REASON = 300
# The parent kills a worker at its time limit. If the parent is gone, the worker ends itself a little later.
GRACE = 2.0
LOADING_SECONDS = 120.0


class Server:
    """Answers requests until standard input closes."""

    def __init__(self, time_limit: float) -> None:
        """`time_limit` is in seconds for one response."""
        self._time_limit = time_limit
        self._loaded = False
        self._began = 0.0

    def serve(self) -> None:
        """Read, grade, reply."""
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
        for line in sys.stdin.buffer:
            for rm_type, response, label, metadata in json.loads(line):
                signal.setitimer(signal.ITIMER_REAL, self._time_limit * GRACE)
                self._began = time.perf_counter()
                verdict = self._grade(rm_type, response, label, metadata)
                milliseconds = 1000 * (time.perf_counter() - self._began)
                _reply(
                    ["verdict", verdict.kind, verdict.score, verdict.reason[:MAX_REASON], {}, round(milliseconds, 3)]
                )
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _grade(self, rm_type: str, response: str, label: Any, metadata: dict[str, Any]) -> Verdict:
        try:
            return grade(rm_type, response, label, metadata, on_symbolic=self._load_algebra)
        except ImportError as error:
            return Verdict.grader_error(f"a library of the grader is missing or broken: {error}")
        except (ValueError, MemoryError, RecursionError) as error:
            return Verdict.grader_error(f"{type(error).__name__}: {error}")

    def _load_algebra(self) -> None:
        # The first import takes a second on a cold disk; it must not count as the answer's own time.
        if self._loaded:
            return
        begin = time.perf_counter()
        _reply(["loading"])
        signal.setitimer(signal.ITIMER_REAL, LOADING_SECONDS)
        from slime.rewards import symbolic  # noqa: F401

        self._loaded = True
        _reply(["loaded"])
        signal.setitimer(signal.ITIMER_REAL, self._time_limit * GRACE)
        self._began += time.perf_counter() - begin


def _reply(message: list[Any]) -> None:
    try:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent is gone, and nobody waits for anything


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes our input
    Server(float(sys.argv[1])).serve()
