"""The connection to Ray: the cluster that runs already, or a local one for this run alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import ray
from ray.exceptions import AuthenticationError

import slime
from slime.cluster.address import running_cluster


class ClusterError(RuntimeError):
    """Ray cannot be reached, or the cluster cannot hold the run; the message says what to change."""


def actor_environment(device: str) -> dict[str, Any]:
    """The runtime environment of this run's actors.

    Said explicitly, because Ray's workers start from the environment and the Python of whoever started the cluster.
    """
    variables = {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(slime.__file__).resolve().parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    if "RAY_AUTH_MODE" in os.environ:
        variables["RAY_AUTH_MODE"] = os.environ["RAY_AUTH_MODE"]
    if device == "cpu":
        # Several processes share the cores, and small models gain nothing from more threads.
        variables["OMP_NUM_THREADS"] = "1"
    else:
        # SGLang sets it in its own processes; a trainer that differs cannot broadcast weights to them, and hangs.
        variables["NCCL_CUMEM_ENABLE"] = "0"
    return {"env_vars": variables, "py_executable": sys.executable}


class RaySession:
    """Connects on entry and disconnects on exit; a local cluster that it started ends with it."""

    def __init__(self) -> None:
        self.local = False

    def __enter__(self) -> RaySession:
        address = running_cluster()
        self.local = address is None
        dashboard = {"include_dashboard": False} if self.local else {}
        try:
            ray.init(address=address or "local", log_to_driver=False, logging_level="warning", **dashboard)
        except AuthenticationError as error:
            raise ClusterError(
                f"the Ray cluster at {address} refused this client, whose RAY_AUTH_MODE is "
                f"{os.environ.get('RAY_AUTH_MODE', 'not set')}: {error}. Start the cluster and "
                "the client with the same mode: RAY_AUTH_MODE=token for both, or RAY_AUTH_MODE=disabled for both"
            ) from error
        except (ConnectionError, RuntimeError) as error:
            what = "a local Ray cluster could not be started" if self.local else f"Ray cannot be reached at {address}"
            raise ClusterError(
                f"{what}: {error}. `ray stop` ends the remains of a dead cluster; `ray start --head` starts one to join"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ray.shutdown()
