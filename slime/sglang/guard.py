"""Runs a server in a process group of its own and makes sure that the group ends with its owner.

Started as a script by `EngineProcess`, with a pipe as its standard input whose other end only the owner holds. When
the owner closes the pipe or dies in any way, even by `kill -9`, the pipe ends and the whole group is killed. Only the
standard library is used, so the guard starts in milliseconds and holds a few megabytes.

    python guard.py COMMAND ARGUMENT...

It exits with the server's exit code; 128 + n when the server died of signal n.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
# How long a server may take to end on SIGTERM before SIGKILL. Nothing in it needs saving, so it is short.
GRACE_SECONDS = 1.0
# How long to wait for members of the group that outlive the server itself.
GROUP_SECONDS = 5.0


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies: covers a guard that is itself killed with SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def group_exists(group: int) -> bool:
    """Whether any process, zombies included, is left in the process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def kill_group(server: subprocess.Popen[bytes]) -> None:
    """End the server's group: SIGTERM, a short grace, SIGKILL, and wait until it is empty."""
    for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GROUP_SECONDS)):
        deadline = time.monotonic() + seconds
        try:
            os.killpg(server.pid, sign)
        except ProcessLookupError:
            break
        while group_exists(server.pid) and time.monotonic() < deadline:
            server.poll()
            time.sleep(0.02)
    server.wait()


def main(command: list[str]) -> int:
    """Run `command` until it ends or standard input does; return the code to exit with."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent)
    poller = select.poll()
    poller.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while server.poll() is None:
        if poller.poll(200):
            break
    kill_group(server)
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


if __name__ == "__main__":
    # The owner decides when the server ends; a Ctrl-C that reaches the whole terminal must not race it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
