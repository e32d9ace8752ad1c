"""Which process goes where: bundles of a placement group, counted before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from slime.cluster.session import ClusterError

PLACEMENT_SECONDS = 60.0
# Shares of a bundle. Colocated, a trainer and an engine live in one bundle, so together they must stay below one.
TRAINER_SHARE = 0.4
ENGINE_SHARE = 0.2


@dataclass(frozen=True)
class PlacementPlan:
    """Bundles of one CPU, and one GPU on `cuda`, in rank order.

    Attributes:
        device: "cpu" or "cuda".
        bundles: how many bundles there are.
        trainers: bundle of each trainer rank.
        engines: first bundle of each engine.
    """

    device: str
    bundles: int
    trainers: tuple[int, ...]
    engines: tuple[int, ...]

    @property
    def unit(self) -> str:
        """The resource that limits the run."""
        return "CPU" if self.device == "cpu" else "GPU"

    def resources(self) -> list[dict[str, float]]:
        """The bundles as Ray wants them."""
        one = {"CPU": 1.0} if self.device == "cpu" else {"CPU": 1.0, "GPU": 1.0}
        return [dict(one) for _ in range(self.bundles)]


def plan_placement(device: str, trainers: int, engines: int, per_engine: int, colocate: bool) -> PlacementPlan:
    """Lay trainers and engines out.

    Args:
        device: "cpu" or "cuda".
        trainers: training processes.
        engines: serving engines.
        per_engine: bundles of one engine.
        colocate: engines share the trainers' bundles from the first on; otherwise they come after them.
    """
    serving = engines * per_engine
    offset = 0 if colocate else trainers
    bundles = max(trainers, serving) if colocate else trainers + serving
    return PlacementPlan(
        device, bundles, tuple(range(trainers)), tuple(offset + index * per_engine for index in range(engines))
    )


def require_capacity(plan: PlacementPlan, total: Mapping[str, float]) -> None:
    """Refuse a cluster that could never hold the plan.

    Args:
        plan: what is to be placed.
        total: the cluster's resources, used ones included.

    Raises:
        ClusterError: with the numbers wanted and found.
    """
    found = int(total.get(plan.unit, 0))
    if found >= plan.bundles:
        return
    sharing = "they may share: add --colocate" if plan.engines and plan.engines[0] else "use fewer of either"
    raise ClusterError(
        f"the Ray cluster has {found} {plan.unit}(s), and the run needs {plan.bundles}: {len(plan.trainers)} for "
        f"training and {plan.bundles - len(plan.trainers)} more for serving; add nodes, or {sharing} "
        "(--actor-num-gpus-per-node, --rollout-num-gpus)"
    )


def place(plan: PlacementPlan, one_node: bool) -> PlacementGroup:
    """Reserve the plan's bundles in the connected cluster.

    Args:
        plan: what is to be placed.
        one_node: all bundles must lie on one node, as weights that travel through shared memory demand.

    Raises:
        ClusterError: the cluster is too small, or others hold what is needed.
    """
    require_capacity(plan, ray.cluster_resources())
    group = placement_group(plan.resources(), strategy="STRICT_PACK" if one_node else "PACK")
    try:
        ray.get(group.ready(), timeout=PLACEMENT_SECONDS)
    except GetTimeoutError as error:
        free: Mapping[str, Any] = ray.available_resources()
        remove_placement_group(group)
        where = "on one node (only --update-weight-transport disk works across nodes)" if one_node else "in the cluster"
        raise ClusterError(
            f"the run needs {plan.bundles} {plan.unit}(s) {where}, and they were not free after "
            f"{PLACEMENT_SECONDS:.0f} s: of {ray.cluster_resources().get(plan.unit, 0):g} in the Ray cluster, "
            f"{free.get(plan.unit, 0):g} are free now. `ray status` and `ray job list` show who holds the others"
        ) from error
    return group
