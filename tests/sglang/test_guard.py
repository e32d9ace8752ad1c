"""The guard ends a server's whole group with its owner, however the owner ends. Real processes, no server needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slime.sglang import guard

# A server that starts a child, tells both pids, and ignores polite requests to end.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid} {os.getcwd()}")
time.sleep(600)
"""


def start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", guard.__file__, *command], stdin=subprocess.PIPE)


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[subprocess.Popen[bytes], int, int, Path]:
    note = tmp_path / "pids"
    process = start(sys.executable, "-c", STUBBORN, str(note))
    wait_for(lambda: note.exists() and len(note.read_text().split()) == 3)
    server, child, scratch = note.read_text().split()
    return process, int(server), int(child), Path(scratch)


def test_the_server_and_its_children_end_when_the_pipe_closes(
    stubborn: tuple[subprocess.Popen[bytes], int, int, Path],
) -> None:
    process, server, child, scratch = stubborn
    assert running(server) and running(child) and scratch.name.startswith("slime-sgl-")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 128 + signal.SIGKILL
    assert not running(server) and not running(child)
    assert not scratch.exists()


def test_a_killed_guard_takes_the_server_with_it(stubborn: tuple[subprocess.Popen[bytes], int, int, Path]) -> None:
    process, server, child, _ = stubborn
    process.kill()
    process.wait()
    wait_for(lambda: not running(server))
    os.kill(child, signal.SIGKILL)  # a real server's children ask to die with it, this one does not


def test_a_killed_owner_takes_everything_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    owner = "import subprocess, sys, time\nsubprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\ntime.sleep(600)\n"
    command = [sys.executable, "-I", guard.__file__, sys.executable, "-c", STUBBORN, str(note)]
    process = subprocess.Popen([sys.executable, "-c", owner, *command])
    wait_for(lambda: note.exists() and len(note.read_text().split()) == 3)
    server, child = map(int, note.read_text().split()[:2])
    process.kill()
    process.wait()
    wait_for(lambda: not running(server) and not running(child))


def test_the_exit_code_of_the_server_is_handed_on() -> None:
    process = start(sys.executable, "-c", "raise SystemExit(7)")
    assert process.wait(20) == 7


def test_members_are_those_of_the_group_alone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        assert guard.members(process.pid) == [process.pid]
        assert os.getpid() not in guard.members(process.pid)
    finally:
        process.kill()
        process.wait()
    assert guard.members(process.pid) == []
