"""One SGLang server as a child: started, proven ready by a real generation, watched, and surely ended."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType

from slime.ports import free_port, require_free
from slime.sglang import cpu, guard
from slime.sglang.launch import EngineSpec, server_command, server_environment

LOG_TAIL_LINES = 20
BATCH_LINE = re.compile(r"\] (Prefill|Decode) batch, ")
# Longer than the guard's own two waits, so that the guard is never cut off before it has emptied the group.
STOP_SECONDS = guard.GRACE_SECONDS + guard.GROUP_SECONDS + 4.0


class EngineError(RuntimeError):
    """A server did not start, or died; the message carries the reason and the end of its log."""


class EngineProcess:
    """A running server.

    Start it with `start()`, wait for it with `wait_ready()`, end it with `stop()`; or use it as a context manager,
    which does all three. The server ends with the process that holds this object, however that process ends.
    """

    def __init__(self, spec: EngineSpec, log_path: str | Path) -> None:
        """
        Args:
            spec: what to start.
            log_path: file for the server's output; its folder is made.
        """
        self.spec = spec
        self.log_path = Path(log_path)
        self.port = 0
        self._guard: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    @property
    def url(self) -> str:
        """Base URL of the server, e.g. `http://127.0.0.1:30000`."""
        return f"http://{self.spec.host}:{self.port}"

    def start(self) -> None:
        """Start the server and return at once.

        Raises:
            PortBusyError: the port that the spec names is taken.
            UntriedVersionError: on a CPU, with an SGLang that the stand-ins were not tried with.
        """
        if self.spec.device == "cpu":
            cpu.require_tried_version()
        host = self.spec.host
        self.port = free_port(host) if self.spec.port is None else require_free(host, self.spec.port, "--sglang-port")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-I", str(Path(guard.__file__).resolve()), *server_command(self.spec, self.port)]
        with self.log_path.open("wb") as log:
            self._guard = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=server_environment(self.spec),
                start_new_session=True,
            )
        self._started = time.monotonic()

    def failure(self) -> str | None:
        """Why the server is not running, or None while it is."""
        if self._guard is None:
            return "the SGLang server was not started"
        code = self._guard.poll()
        if code is None:
            return None
        ended = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        return f"the SGLang server at {self.url} {ended}; the end of its log, {self.log_path}:\n{self.log_tail()}"

    def wait_ready(self) -> float:
        """Wait until the server has generated a token; return the seconds since `start()`.

        Raises:
            EngineError: it died, or `spec.start_seconds` passed. The server is ended in both cases.
        """
        while not self._answers():
            reason = self.failure()
            waited = time.monotonic() - self._started
            if reason is None and waited > self.spec.start_seconds:
                reason = (
                    f"the SGLang server at {self.url} gave no answer within {self.spec.start_seconds:.0f} s; "
                    f"the end of its log, {self.log_path}:\n{self.log_tail()}"
                )
            if reason is not None:
                self.stop()
                raise EngineError(reason)
            time.sleep(0.2)
        return time.monotonic() - self._started

    def _answers(self) -> bool:
        """Whether the server generates one token now."""
        body = {"input_ids": [1], "sampling_params": {"max_new_tokens": 1, "temperature": 0.0}}
        request = urllib.request.Request(
            f"{self.url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as response:
                return bool(response.status == 200)
        except (OSError, http.client.HTTPException):  # not there yet, or another program has the port
            return False

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the server's output, without its running commentary on batches."""
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "(there is no log)"
        telling = [line for line in text.splitlines() if not BATCH_LINE.search(line)]
        return "\n".join(telling[-lines:]) or "(the log is empty)"

    def pids(self) -> list[int]:
        """Process ids of the running server and what it started, the server itself first (Linux)."""
        if self._guard is None:
            return []
        children = Path(f"/proc/{self._guard.pid}/task/{self._guard.pid}/children")
        try:
            server = int(children.read_text().split()[0])
        except (OSError, IndexError):
            return []
        return sorted(guard.members(server), key=lambda pid: pid != server)

    def stop(self) -> None:
        """End the server and everything that it started. Harmless when it has ended already."""
        if self._guard is not None:
            if self._guard.stdin is not None:
                self._guard.stdin.close()
            try:
                self._guard.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                # The server has asked the system to die with its guard, so this ends it too.
                self._guard.kill()
                self._guard.wait()

    def __enter__(self) -> EngineProcess:
        self.start()
        self.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
