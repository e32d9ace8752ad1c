"""Which process goes where: bundles of a placement group, counted before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

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
        offset: first bundle of the part that serves.
    """

    device: str
    bundles: int
    trainers: tuple[int, ...]
    engines: tuple[int, ...]
    offset: int

    @property
    def unit(self) -> str:
        """The resource that limits the run."""
        return "CPU" if self.device == "cpu" else "GPU"

    def resources(self) -> list[dict[str, float]]:
        """The bundles as Ray wants them."""
        one = {"CPU": 1.0} if self.device == "cpu" else {"CPU": 1.0, "GPU": 1.0}
        return [dict(one) for _ in range(self.bundles)]


def plan_placement(device: str, trainers: int, serving: int, engines: Sequence[int], colocate: bool) -> PlacementPlan:
    """Lay trainers and engines out.

    Args:
        device: "cpu" or "cuda".
        trainers: training processes.
        serving: bundles of the part that serves, those that are kept free included.
        engines: first bundle of each engine in that part, from 0.
        colocate: engines share the trainers' bundles from the first on; otherwise they come after them.
    """
    offset = 0 if colocate else trainers
    bundles = max(trainers, serving) if colocate else trainers + serving
    return PlacementPlan(device, bundles, tuple(range(trainers)), tuple(offset + first for first in engines), offset)


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


@dataclass(frozen=True)
class Slot:
    """Where Ray put a bundle.

    Attributes:
        bundle: its number in the placement group.
        node: address of its node.
        gpu: number of its GPU on that node; None on a CPU.
    """

    bundle: int
    node: str
    gpu: int | None


@dataclass(frozen=True)
class Placed:
    """The bundles of a plan, reserved.

    Attributes:
        group: of Ray.
        slots: where each bundle of the plan is: neighbours in the plan are neighbours on a node.
    """

    group: PlacementGroup
    slots: tuple[Slot, ...]

    def gpus(self, first: int, count: int) -> list[int]:
        """Numbers of the GPUs of `count` bundles of the plan from `first` on.

        Raises:
            ClusterError: they lie on several nodes, or there are none.
        """
        own = self.slots[first : first + count]
        nodes = sorted({slot.node for slot in own})
        found = [slot.gpu for slot in own if slot.gpu is not None]
        if len(nodes) > 1 or len(found) != count:
            raise ClusterError(
                f"an engine of {count} GPUs would lie on {len(nodes)} nodes ({', '.join(nodes)}), and the runtime "
                "starts an engine on one node; give --rollout-num-gpus-per-engine a divisor of the GPUs of a node"
            )
        return found


def _where() -> tuple[str, int]:
    return str(ray.util.get_node_ip_address()), int(ray.get_gpu_ids()[0])


def locate(group: PlacementGroup, plan: PlacementPlan, environment: Mapping[str, Any]) -> tuple[Slot, ...]:
    """Ask every bundle where it is, and put them in the order of node and GPU.

    Ray numbers bundles as it likes; in this order ranks are the same in every run, and an engine's GPUs are
    neighbours.

    Args:
        group: the reserved bundles, still empty.
        plan: what they are for.
        environment: runtime environment of the processes that look.
    """
    if plan.device == "cpu":
        return tuple(Slot(bundle, "", None) for bundle in range(plan.bundles))
    ask = ray.remote(_where)
    answers = ray.get(
        [
            ask.options(
                num_cpus=0,
                num_gpus=1,
                runtime_env=dict(environment),
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle),
            ).remote()
            for bundle in range(plan.bundles)
        ]
    )
    slots = [Slot(bundle, node, gpu) for bundle, (node, gpu) in enumerate(answers)]
    return tuple(sorted(slots, key=lambda slot: (ip_address(slot.node).packed, slot.gpu)))


def place(plan: PlacementPlan, one_node: bool, environment: Mapping[str, Any]) -> Placed:
    """Reserve the plan's bundles in the connected cluster.

    Args:
        plan: what is to be placed.
        one_node: all bundles must lie on one node, as weights that travel through shared memory demand.
        environment: see `locate`.

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
    return Placed(group, locate(group, plan, environment))
