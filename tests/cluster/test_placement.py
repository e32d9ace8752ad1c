"""Bundles are counted before anything starts, and a cluster that cannot hold them is refused with the numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slime.cluster.placement import ENGINE_SHARE, TRAINER_SHARE, Placed, Slot, plan_placement, require_capacity
from slime.cluster.session import ClusterError

pytestmark = pytest.mark.runtime


def test_colocated_engines_share_the_trainers_bundles() -> None:
    plan = plan_placement("cuda", trainers=4, serving=4, engines=(0, 2), colocate=True)
    assert plan.bundles == 4
    assert plan.trainers == (0, 1, 2, 3)
    assert plan.engines == (0, 2)
    assert TRAINER_SHARE + ENGINE_SHARE <= 1


def test_colocated_engines_may_be_more_than_the_trainers() -> None:
    plan = plan_placement("cuda", trainers=2, serving=4, engines=range(4), colocate=True)
    assert plan.bundles == 4
    assert plan.engines == (0, 1, 2, 3)


def test_separate_engines_follow_the_trainers() -> None:
    plan = plan_placement("cuda", trainers=2, serving=4, engines=(0, 2), colocate=False)
    assert plan.bundles == 6
    assert plan.engines == (2, 4)


def test_a_cpu_bundle_asks_for_no_gpu() -> None:
    assert plan_placement("cpu", 1, 1, (0,), True).resources() == [{"CPU": 1.0}]
    assert plan_placement("cuda", 1, 1, (0,), True).resources() == [{"CPU": 1.0, "GPU": 1.0}]


def test_a_small_cluster_is_refused_with_the_numbers() -> None:
    plan = plan_placement("cuda", trainers=4, serving=4, engines=(0, 2), colocate=False)
    with pytest.raises(ClusterError) as caught:
        require_capacity(plan, {"CPU": 64.0, "GPU": 6.0})
    text = str(caught.value)
    assert "has 6 GPU(s)" in text and "needs 8" in text and "4 for training and 4 more for serving" in text
    assert "--colocate" in text


def test_a_cluster_of_the_right_size_is_accepted() -> None:
    plan = plan_placement("cpu", 1, 1, (0,), False)
    require_capacity(plan, {"CPU": 2.0})
    with pytest.raises(ClusterError, match=r"has 1 CPU\(s\)"):
        require_capacity(plan, {"CPU": 1.0})


# Ray counts the GPUs that it is told of; nothing here computes on one.
ON_RAY = """
import os, ray
from slime.cluster.placement import place, plan_placement
from slime.cluster.session import ClusterError

ray.init(address="local", num_cpus=8, num_gpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
environment = {"env_vars": {"PYTHONPATH": os.getcwd()}}
plan = plan_placement("cuda", trainers=2, serving=2, engines=(0,), colocate=False)
placed = place(plan, True, environment)
print([slot.gpu for slot in placed.slots], sorted(slot.bundle for slot in placed.slots), placed.gpus(plan.offset, 2))
try:
    place(plan_placement("cuda", trainers=4, serving=1, engines=(0,), colocate=False), True, environment)
except ClusterError as error:
    print(error)
"""


@pytest.mark.slow
def test_bundles_are_in_the_order_of_their_gpus() -> None:
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", ON_RAY], capture_output=True, text=True, env=environment, check=False, timeout=180,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    placed, refused = done.stdout.splitlines()[-2:]
    assert placed == "[0, 1, 2, 3] [0, 1, 2, 3] [2, 3]"
    assert refused.startswith(
        "the Ray cluster has 4 GPU(s), and the run needs 5: 4 for training and 1 more for serving"
    )


def test_an_engine_does_not_cross_nodes() -> None:
    placed = Placed(None, (Slot(0, "10.0.0.1", 7), Slot(1, "10.0.0.2", 0)))
    assert placed.gpus(0, 1) == [7]
    with pytest.raises(ClusterError, match=r"an engine of 2 GPUs would lie on 2 nodes \(10.0.0.1, 10.0.0.2\)"):
        placed.gpus(0, 2)
