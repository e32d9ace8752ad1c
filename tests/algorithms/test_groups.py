"""Group-relative advantages against closed forms and NumPy."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from slime.algorithms.groups import group_advantages, group_statistics, leave_one_out, shape_rewards


def test_half_correct_group_of_eight() -> None:
    rewards = [1.0, 0, 1, 1, 0, 0, 1, 0]
    statistics = group_statistics(rewards)
    assert statistics.mean == 0.5
    assert statistics.std == pytest.approx(math.sqrt(2 / 7), rel=1e-15)
    expected = 0.5 / (math.sqrt(2 / 7) + 1e-6)
    assert expected == pytest.approx(0.9354126, abs=5e-8)
    assert group_advantages(rewards, [0] * 8) == pytest.approx([expected if r else -expected for r in rewards])


def test_uneven_interleaved_groups_equal_numpy_group_by_group() -> None:
    generator = np.random.default_rng(0)
    groups = generator.permutation(np.repeat([7, 3, 9, 100], [2, 5, 8, 1]))
    rewards = generator.normal(size=groups.size)
    result = np.array(group_advantages(rewards.tolist(), groups.tolist()))
    for group in (7, 3, 9):
        chosen = groups == group
        own = rewards[chosen]
        assert result[chosen] == pytest.approx((own - own.mean()) / (own.std(ddof=1) + 1e-6), rel=1e-12)
    assert result[groups == 100].tolist() == [0.0]


def test_equal_rewards_give_zero_not_nan() -> None:
    result = group_advantages([0.3, 0.3, 0.3, 1.0], [0, 0, 0, 1])
    assert result == pytest.approx([0, 0, 0, 0], abs=1e-6)


def test_without_standard_deviation_only_the_mean_goes() -> None:
    result = group_advantages([1.0, 0, 0, 5.0, 7.0], [0, 0, 0, 1, 1], normalize_std=False)
    assert result == pytest.approx([2 / 3, -1 / 3, -1 / 3, -1, 1])


def test_leave_one_out_by_its_definition() -> None:
    generator = np.random.default_rng(1)
    groups = generator.permutation(np.repeat([4, 5, 6], [3, 7, 1]))
    rewards = generator.normal(size=groups.size)
    found = leave_one_out(rewards.tolist(), groups.tolist())
    for i, group in enumerate(groups):
        others = [rewards[j] for j in range(groups.size) if groups[j] == group and j != i]
        assert found[i] == pytest.approx(rewards[i] - np.mean(others) if others else 0.0, abs=1e-12)


def test_each_estimator_shapes_rewards_in_its_own_way() -> None:
    rewards, groups = [1.0, 0, 0, 5.0, 7.0], [0, 0, 0, 1, 1]
    centred = [2 / 3, -1 / 3, -1 / 3, -1, 1]
    deviations = [math.sqrt(1 / 3)] * 3 + [math.sqrt(2)] * 2
    scaled = [value / (deviation + 1e-6) for value, deviation in zip(centred, deviations, strict=True)]
    for estimator in ("grpo", "gspo", "cispo"):
        assert shape_rewards(rewards, groups, estimator) == pytest.approx(scaled)
        assert shape_rewards(rewards, groups, estimator, normalize_std=False) == pytest.approx(centred)
    assert shape_rewards(rewards, groups, "reinforce_plus_plus_baseline") == pytest.approx(centred)
    assert shape_rewards(rewards, groups, "rloo") == pytest.approx([1, -1 / 2, -1 / 2, -2, 2])
    for estimator in ("ppo", "reinforce_plus_plus"):
        assert shape_rewards(rewards, groups, estimator) == rewards
    assert shape_rewards(rewards, groups, "grpo", normalize=False) == rewards


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="3 rewards and 2 groups"):
        group_advantages([0.0, 0.0, 0.0], [0, 0])
    with pytest.raises(ValueError, match="no rewards"):
        group_statistics([])


def test_no_tensor_library_is_loaded() -> None:
    code = "import sys, slime.algorithms.groups; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_trajectory_in_pieces_counts_once() -> None:
    """Three trajectories with rewards 1, 0, 0, the first in four pieces: as if it were one sample."""
    rewards, weights = [1.0] * 4 + [0.0, 0.0], [0.25] * 4 + [1.0, 1.0]
    for estimator in ("grpo", "rloo", "reinforce_plus_plus_baseline"):
        whole = shape_rewards([1.0, 0.0, 0.0], [0] * 3, estimator)
        found = shape_rewards(rewards, [0] * 6, estimator, weights=weights)
        assert found == pytest.approx([whole[0]] * 4 + whole[1:])
