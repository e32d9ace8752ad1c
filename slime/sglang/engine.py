"""One SGLang server as a child: started, proven ready by a real generation, watched, and surely ended."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from pathlib import Path
from types import TracebackType

from slime.ports import free_ports, require_free
from slime.sglang import cpu
from slime.sglang.guarded import GuardedProcess
from slime.sglang.launch import EngineSpec, server_command, server_environment


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
        self.port = 0
        self.bootstrap_port: int | None = None
        self._process = GuardedProcess("the SGLang server", log_path)

    @property
    def url(self) -> str:
        """Base URL of the server, e.g. `http://127.0.0.1:30000`."""
        return f"http://{self.spec.host}:{self.port}"

    def start(self) -> None:
        """Start the server and return at once. A second start, after the server ended, keeps its ports.

        Raises:
            PortBusyError: the port that the spec names is taken.
            UntriedVersionError: on a CPU, with an SGLang that the stand-ins were not tried with.
        """
        if self.spec.device == "cpu":
            cpu.require_tried_version()
        self._choose_ports()
        self._process.what = f"the SGLang server at {self.url}"
        self._process.start(server_command(self.spec, self.port, self.bootstrap_port), server_environment(self.spec))

    def _choose_ports(self) -> None:
        """All ports in one pass."""
        host = self.spec.host
        if self.port:
            return
        chosen = free_ports(2, host)
        self.port = chosen[0] if self.spec.port is None else require_free(host, self.spec.port, "--sglang-port")
        self.bootstrap_port = chosen[1] if self.spec.bootstrap else None

    def failure(self) -> str | None:
        """Why the server is not running, or None while it is."""
        return self._process.failure()

    def wait_ready(self) -> float:
        """Wait until the server has generated a token; return the seconds since `start()`.

        Raises:
            EngineError: it died, or `spec.start_seconds` passed. The server is ended in both cases.
        """
        while not self._answers():
            reason = self.failure()
            if reason is None and self._process.age > self.spec.start_seconds:
                reason = self._process.explain(f"gave no answer within {self.spec.start_seconds:.0f} s")
            if reason is not None:
                self.stop()
                raise EngineError(reason)
            time.sleep(0.2)
        return self._process.age

    def _answers(self) -> bool:
        """Whether the server generates one token now; of a prefill or decode engine, whether it is healthy.

        Those two generate in pairs alone.
        """
        if "disaggregation-mode" in self.spec.arguments:
            request = urllib.request.Request(f"{self.url}/health")
        else:
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

    def pids(self) -> list[int]:
        """Process ids of the running server and what it started, the server itself first (Linux)."""
        return self._process.pids()

    def stop(self) -> None:
        """End the server and everything that it started. Harmless when it has ended already."""
        self._process.stop()

    def __enter__(self) -> EngineProcess:
        self.start()
        self.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
