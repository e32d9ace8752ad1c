"""A program as a child of ours: its output in a file, its end noticed with the reason, and surely ended with us."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from slime.sglang import guard

LOG_TAIL_LINES = 20
BATCH_LINE = re.compile(r"\] (Prefill|Decode) batch, ")
# Longer than the guard's own two waits, so that the guard is never cut off before it has emptied the group.
STOP_SECONDS = guard.GRACE_SECONDS + guard.GROUP_SECONDS + 4.0


class GuardedProcess:
    """A program with everything that it starts, run by `slime/sglang/guard.py`.

    It ends with the process that holds this object, however that process ends. It may be started again.
    """

    def __init__(self, what: str, log_path: str | Path) -> None:
        """
        Args:
            what: how messages call it, e.g. "the SGLang server at http://127.0.0.1:30000".
            log_path: file for its output; its folder is made. A second start appends to it.
        """
        self.what = what
        self.log_path = Path(log_path)
        self._guard: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the program and return at once."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("wb" if self._guard is None else "ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", str(Path(guard.__file__).resolve()), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        self._started = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last start."""
        return time.monotonic() - self._started

    def failure(self) -> str | None:
        """Why the program is not running, or None while it is."""
        if self._guard is None:
            return f"{self.what} was not started"
        code = self._guard.poll()
        if code is None:
            return None
        ended = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        return self.explain(ended)

    def explain(self, happened: str) -> str:
        """A message that ends with the end of the log."""
        return f"{self.what} {happened}; the end of its log, {self.log_path}:\n{self.log_tail()}"

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the program's output, without a server's running commentary on batches."""
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "(there is no log)"
        telling = [line for line in text.splitlines() if not BATCH_LINE.search(line)]
        return "\n".join(telling[-lines:]) or "(the log is empty)"

    def pids(self) -> list[int]:
        """Process ids of the running program and what it started, the program itself first (Linux)."""
        if self._guard is None:
            return []
        children = Path(f"/proc/{self._guard.pid}/task/{self._guard.pid}/children")
        try:
            server = int(children.read_text().split()[0])
        except (OSError, IndexError):
            return []
        return sorted(guard.members(server), key=lambda pid: pid != server)

    def stop(self) -> None:
        """End the program and everything that it started. Harmless when it has ended already."""
        if self._guard is not None:
            if self._guard.stdin is not None:
                self._guard.stdin.close()
            try:
                self._guard.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                # The program has asked the system to die with its guard, so this ends it too.
                self._guard.kill()
                self._guard.wait()
