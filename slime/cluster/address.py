"""Which Ray cluster to use, decided before Ray is imported: Ray reads its authentication mode at import time."""

from __future__ import annotations

import os
import socket
from pathlib import Path

# Where Ray notes the address of the cluster that was started on this machine (by `ray start`, or by another program).
CLUSTER_NOTE = Path("/tmp/ray/ray_current_cluster")


def running_cluster() -> str | None:
    """Address of the Ray cluster to use, or None when there is none.

    RAY_ADDRESS decides if it is set, as Ray does itself inside a job; `local` means none. Otherwise it is the cluster
    that this machine's note names, if something still listens there.
    """
    if os.environ.get("RAY_ADDRESS"):
        return None if os.environ["RAY_ADDRESS"] == "local" else os.environ["RAY_ADDRESS"]
    try:
        address = CLUSTER_NOTE.read_text(encoding="utf-8").strip()
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=2):
            return address
    except (OSError, ValueError):
        return None


def settle_authentication() -> None:
    """Make the authentication mode explicit; call it before Ray is imported.

    A cluster and its clients must have the same RAY_AUTH_MODE, `token` or `disabled`. What the environment says holds.
    When it says nothing, a local cluster of this run gets `token`: without it, everybody who reaches its port could run
    code. A cluster that runs already is joined in the mode that Ray finds, with the token of ~/.ray/auth_token if there
    is one.
    """
    if "RAY_AUTH_MODE" not in os.environ and running_cluster() is None:
        os.environ["RAY_AUTH_MODE"] = "token"
    # Ray would otherwise report usage over the network.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
