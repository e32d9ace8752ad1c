"""The connection to Ray: the cluster that runs already, or a local one for this run alone."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import ray
from ray.exceptions import AuthenticationError

import slime

# Where Ray notes the address of the cluster that was started on this machine (by `ray start`, or by another program).
CLUSTER_NOTE = Path("/tmp/ray/ray_current_cluster")


class ClusterError(RuntimeError):
    """Ray cannot be reached, or the cluster cannot hold the run; the message says what to change."""


def running_cluster() -> str | None:
    """Address of the Ray cluster to use, or None when there is none.

    Inside a job Ray itself sets RAY_ADDRESS. Otherwise it is the cluster that this machine's note names, if something
    still listens there.
    """
    if os.environ.get("RAY_ADDRESS"):
        return os.environ["RAY_ADDRESS"]
    try:
        address = CLUSTER_NOTE.read_text(encoding="utf-8").strip()
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=2):
            return address
    except (OSError, ValueError):
        return None


def actor_environment(device: str) -> dict[str, Any]:
    """The runtime environment of this run's actors.

    Said explicitly, because Ray's workers start from the environment and the Python of whoever started the cluster.
    """
    variables = {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(slime.__file__).resolve().parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "RAY_AUTH_MODE": os.environ["RAY_AUTH_MODE"],
    }
    if device == "cpu":
        # Several processes share the cores, and small models gain nothing from more threads.
        variables["OMP_NUM_THREADS"] = "1"
    return {"env_vars": variables, "py_executable": sys.executable}


class RaySession:
    """Connects on entry and disconnects on exit; a local cluster that it started ends with it.

    Ray demands authentication by token since 2.60, and a client whose mode differs from the cluster's is refused with
    a message about a missing token. The mode is therefore set here, explicitly: what the environment says, else
    `token`.
    """

    def __init__(self) -> None:
        self.local = False

    def __enter__(self) -> RaySession:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        # Ray would otherwise report usage over the network.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        address = running_cluster()
        self.local = address is None
        options: dict[str, Any] = {"include_dashboard": False} if self.local else {"address": address}
        try:
            ray.init(log_to_driver=False, logging_level="warning", configure_logging=True, **options)
        except AuthenticationError as error:
            raise ClusterError(
                f"the Ray cluster at {address} refused this client, whose RAY_AUTH_MODE is "
                f"{os.environ['RAY_AUTH_MODE']!r}: {error}. Start the cluster and the client with the same mode: "
                "RAY_AUTH_MODE=token for both, or RAY_AUTH_MODE=disabled for both"
            ) from error
        except (ConnectionError, RuntimeError) as error:
            raise ClusterError(
                f"Ray cannot be reached at {address}: {error}. Start a cluster with `ray start --head`, or stop the "
                "dead one with `ray stop` to have a local one started"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ray.shutdown()
