"""Group-relative advantages against closed forms and NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from slime.algorithms.advantages import group_advantages, spread


def test_half_correct_group_of_eight() -> None:
    rewards = torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0])
    result = group_advantages(rewards, torch.zeros(8, dtype=torch.long))
    expected = 0.5 / (math.sqrt(2 / 7) + 1e-6)
    assert expected == pytest.approx(0.93541, abs=1e-5)
    assert result.tolist() == pytest.approx([expected] * 4 + [-expected] * 4, rel=1e-6)


def test_uneven_interleaved_groups_equal_numpy_group_by_group() -> None:
    generator = np.random.default_rng(0)
    groups = generator.permutation(np.repeat([7, 3, 9, 100], [2, 5, 8, 1]))
    rewards = generator.normal(size=groups.size)
    result = group_advantages(torch.tensor(rewards), torch.tensor(groups)).numpy()
    for group in (7, 3, 9):
        chosen = groups == group
        own = rewards[chosen]
        assert result[chosen] == pytest.approx((own - own.mean()) / (own.std(ddof=1) + 1e-6), rel=1e-12)
    assert result[groups == 100] == pytest.approx([0.0])


def test_equal_rewards_give_zero_not_nan() -> None:
    result = group_advantages(torch.tensor([0.3, 0.3, 0.3, 1.0]), torch.tensor([0, 0, 0, 1]))
    assert result.tolist() == pytest.approx([0, 0, 0, 0], abs=1e-6)


def test_without_standard_deviation_only_the_mean_goes() -> None:
    result = group_advantages(torch.tensor([1.0, 0, 0, 5.0, 7.0]), torch.tensor([0, 0, 0, 1, 1]), normalize_std=False)
    assert result.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3, -1, 1])


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) and groups \(2,\)"):
        group_advantages(torch.zeros(3), torch.zeros(2))


def test_spread_repeats_each_scalar_over_its_response() -> None:
    assert spread(torch.tensor([1.0, -2.0]), torch.tensor([2, 3])).tolist() == [1, 1, -2, -2, -2]
