"""Runs a server in a process group of its own and makes sure that the group ends with its owner.

Started as a script by `EngineProcess`, with a pipe as its standard input whose other end only the owner holds. When
the owner closes the pipe or dies in any way, even by `kill -9`, the pipe ends and the whole group is killed. Only the
standard library is used, so the guard starts in milliseconds and holds a few megabytes.

    python guard.py COMMAND ARGUMENT...

The server gets a scratch directory of its own as its current directory and for its temporary files; it is removed at
the end. The guard exits with the server's exit code, or 128 + n when the server died of signal n.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
# How long a server may take to end on SIGTERM before SIGKILL. Nothing in it needs saving, so it is short.
GRACE_SECONDS = 0.5
# How long to wait for members of the group that outlive the server itself.
GROUP_SECONDS = 10.0
POLL_MILLISECONDS = 200
# Shared memory that a killed server cannot unlink: its own segments, and semaphores of Python's multiprocessing.
SHARED_MEMORY_PREFIXES = ("sglang_", "sgl_shm_", "sem.mp-", "psm_")


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies: covers a guard that is itself killed with SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def members(group: int) -> list[int]:
    """Process ids of the group's members that are not zombies, read from /proc (Linux)."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command in parentheses may hold spaces; the fields after it do not.
            state, _, process_group = entry.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it ended while it was being read
        if int(process_group) == group and state != "Z":
            found.append(int(entry.parent.name))
    return found


def shared_memory(group: int) -> set[Path]:
    """Segments in /dev/shm that the group maps and that carry one of its own prefixes."""
    found: set[Path] = set()
    for process in members(group):
        try:
            lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        except OSError:
            continue
        paths = {Path(line.split(maxsplit=5)[-1]) for line in lines if " /dev/shm/" in line}
        found |= {path for path in paths if path.name.startswith(SHARED_MEMORY_PREFIXES)}
    return found


def kill_group(server: subprocess.Popen[bytes]) -> None:
    """End the server's group: SIGTERM, a short grace, SIGKILL, and wait until no member runs any more."""
    segments = shared_memory(server.pid)
    for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GROUP_SECONDS)):
        deadline = time.monotonic() + seconds
        try:
            os.killpg(server.pid, sign)
        except ProcessLookupError:
            break
        while members(server.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
    server.wait()
    for segment in segments:
        segment.unlink(missing_ok=True)


def main(command: list[str]) -> int:
    """Run `command` until it ends or standard input does; return the code to exit with."""
    # Short prefix: the server's sockets live here, and a Unix socket's path may have 107 bytes only.
    with tempfile.TemporaryDirectory(prefix="slime-sgl-", ignore_cleanup_errors=True) as scratch:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            cwd=scratch,
            env=os.environ | {"TMPDIR": scratch},
            start_new_session=True,
            preexec_fn=die_with_parent,  # safe: the guard has one thread
        )
        poller = select.poll()
        poller.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
        while server.poll() is None and not poller.poll(POLL_MILLISECONDS):
            pass
        kill_group(server)
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


if __name__ == "__main__":
    # The owner decides when the server ends; a signal to the whole terminal must not race it.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
