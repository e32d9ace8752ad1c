"""A folder to run a generated shell in, with stubs for the programs that need a network, a GPU or a cluster."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slime.experiment import load_catalog
from slime.experiment.catalog import Catalog

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = ("ray", "hf", "torchrun", "python")


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@dataclass
class Bench:
    """A working folder with generated shells and the record of what they called."""

    folder: Path
    log: Path
    bin: Path
    catalog: Catalog
    dashboard: str

    def make(self, name: str = "experiment.sh", **choices: Any) -> str:
        """Write the shell of an experiment and return its text."""
        text: str = self.catalog.artifacts(self.catalog.sanitise(choices).state, None)[name]
        (self.folder / name).write_text(text, encoding="utf-8")
        return text

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``bash experiment.sh <words>`` in the folder, with the stubs first on PATH."""
        return self.bash("experiment.sh", *words, **variables)

    def bash(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY),
            "STUB_LOG": str(self.log),
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "RAY_DASHBOARD": self.dashboard,
            **variables,
        }
        return subprocess.run(
            ["bash", *words], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def calls(self) -> list[list[str]]:
        """The argument vectors of every stub call since the last time, oldest first."""
        found = []
        for path in sorted(self.log.iterdir()):
            found.append([os.fsdecode(word) for word in path.read_bytes().split(b"\0")])
            path.unlink()
        return found


@pytest.fixture(scope="session")
def dashboard() -> Iterator[str]:
    """The address of a server that answers every request with 501, as a dashboard that wants a token answers 401."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def bench(tmp_path: Path, catalog: Catalog, dashboard: str) -> Bench:
    log, programs, folder = tmp_path / "log", tmp_path / "bin", tmp_path / "repository"
    for made in (log, programs, folder):
        made.mkdir()
    stub = programs / "stub"
    stub.write_text(f"#!{sys.executable}\n" + (Path(__file__).parent / "stub.py").read_text())
    stub.chmod(0o755)
    for name in PROGRAMS:
        (programs / name).symlink_to(stub)
    return Bench(folder, log, programs, catalog, dashboard)


@pytest.fixture
def without(bench: Bench) -> Callable[[str], None]:
    """Take a program away from the bench."""

    def remove(name: str) -> None:
        (bench.bin / name).unlink()

    return remove
