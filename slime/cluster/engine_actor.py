"""The Ray actor that holds one SGLang server. It imports neither torch nor SGLang: small and quick."""

from __future__ import annotations

import threading
from pathlib import Path

from slime.sglang.engine import EngineProcess
from slime.sglang.launch import EngineSpec

WATCH_SECONDS = 0.2


class EngineActor:
    """One server, ended with this actor. Runs with two threads: one may wait in `watch` while the other serves."""

    def __init__(self, spec: EngineSpec, log_path: str) -> None:
        """
        Args:
            spec: what to start.
            log_path: file for the server's output, on the node of this actor.
        """
        self.engine = EngineProcess(spec, log_path)
        self._stopping = threading.Event()

    def start(self) -> tuple[str, int | None]:
        """Start the server, or start it again after it ended, and return its URL; it does not answer yet.

        Returns:
            The URL, and the port where a prefill engine meets decode engines.

        Raises:
            PortBusyError, UntriedVersionError: see `EngineProcess.start`.
        """
        self.engine.start()
        return self.engine.url, self.engine.bootstrap_port

    def wait_ready(self) -> float:
        """Wait for the first generated token; seconds since the start.

        Raises:
            EngineError: the server died, or took too long.
        """
        return self.engine.wait_ready()

    def watch(self) -> str | None:
        """Wait until the server ends. Returns the reason, or None if `stop` ended it."""
        while not self._stopping.wait(WATCH_SECONDS):
            reason = self.engine.failure()
            if reason is not None:
                return reason
        return None

    def pull_weights(self, source: str, local: str) -> int:
        """Bring this host's own checkpoint to a version; see `LocalCheckpoint.pull`.

        Args:
            source: the version's folder.
            local: --update-weight-local-checkpoint-dir.
        """
        from slime.weights.local_checkpoint import LocalCheckpoint

        return LocalCheckpoint(Path(local)).pull(Path(source))

    def stop(self) -> None:
        """End the server."""
        self._stopping.set()
        self.engine.stop()
