"""Bundles are counted before anything starts, and a cluster that cannot hold them is refused with the numbers."""

from __future__ import annotations

import pytest

from slime.cluster.placement import ENGINE_SHARE, TRAINER_SHARE, plan_placement, require_capacity
from slime.cluster.session import ClusterError

pytestmark = pytest.mark.runtime


def test_colocated_engines_share_the_trainers_bundles() -> None:
    plan = plan_placement("cuda", trainers=4, engines=2, per_engine=2, colocate=True)
    assert plan.bundles == 4
    assert plan.trainers == (0, 1, 2, 3)
    assert plan.engines == (0, 2)
    assert TRAINER_SHARE + ENGINE_SHARE <= 1


def test_colocated_engines_may_be_more_than_the_trainers() -> None:
    plan = plan_placement("cuda", trainers=2, engines=4, per_engine=1, colocate=True)
    assert plan.bundles == 4
    assert plan.engines == (0, 1, 2, 3)


def test_separate_engines_follow_the_trainers() -> None:
    plan = plan_placement("cuda", trainers=2, engines=2, per_engine=2, colocate=False)
    assert plan.bundles == 6
    assert plan.engines == (2, 4)


def test_a_cpu_bundle_asks_for_no_gpu() -> None:
    assert plan_placement("cpu", 1, 1, 1, True).resources() == [{"CPU": 1.0}]
    assert plan_placement("cuda", 1, 1, 1, True).resources() == [{"CPU": 1.0, "GPU": 1.0}]


def test_a_small_cluster_is_refused_with_the_numbers() -> None:
    plan = plan_placement("cuda", trainers=4, engines=2, per_engine=2, colocate=False)
    with pytest.raises(ClusterError) as caught:
        require_capacity(plan, {"CPU": 64.0, "GPU": 6.0})
    text = str(caught.value)
    assert "has 6 GPU(s)" in text and "needs 8" in text and "4 for training and 4 more for serving" in text
    assert "--colocate" in text


def test_a_cluster_of_the_right_size_is_accepted() -> None:
    plan = plan_placement("cpu", 1, 1, 1, False)
    require_capacity(plan, {"CPU": 2.0})
    with pytest.raises(ClusterError, match=r"has 1 CPU\(s\)"):
        require_capacity(plan, {"CPU": 1.0})
