"""Choosing a TCP port for a server, and refusing one that is taken."""

from __future__ import annotations

import errno
import random
import socket

SERVER_PORTS = (15000, 30000)


class PortBusyError(RuntimeError):
    """The port that was asked for is in use."""


def bind_error(host: str, port: int) -> OSError | None:
    """Why `host:port` cannot be bound, or None if it can. Port 0 asks for any free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port in TIME_WAIT is free, a listening one is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def free_port(host: str = "127.0.0.1", start: int | None = None, span: int = 200) -> int:
    """A port that is free now.

    Args:
        host: address that will be bound.
        start: search upward from here; None starts at a random port below the range that systems hand out to outgoing
            connections. A server binds seconds after its port is chosen, and there it is likely to be still free.
        span: how many ports to try.

    Raises:
        PortBusyError: every port of the span is taken.
    """
    first = random.randrange(*SERVER_PORTS) if start is None else start
    for port in range(first, first + span):
        if bind_error(host, port) is None:
            return port
    raise PortBusyError(f"no free port on {host} between {first} and {first + span - 1}")


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """`count` different ports that are free now; see :func:`free_port`."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port(host))
    return sorted(found)


def require_free(host: str, port: int, flag: str) -> int:
    """Return `port` if it can be bound.

    Args:
        host: address that will be bound.
        port: the port that the user asked for.
        flag: the flag that asked for it; named in the message.

    Raises:
        PortBusyError: it is in use, or may not be bound; the message names a free one.
    """
    error = bind_error(host, port)
    if error is None:
        return port
    reason = "another process listens there" if error.errno == errno.EADDRINUSE else error.strerror
    nearest = free_port(host, start=port + 1) if 1024 <= port < 65000 else free_port(host)
    raise PortBusyError(
        f"{flag} {port}: port {port} of {host} cannot be used ({reason}); "
        f"leave the flag out to have a free port chosen, or take {nearest}, which is free now"
    )
