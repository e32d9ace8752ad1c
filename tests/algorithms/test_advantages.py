"""From one advantage a sequence to one a token."""

from __future__ import annotations

import torch

from slime.algorithms.advantages import spread


def test_spread_repeats_each_scalar_over_its_response() -> None:
    assert spread(torch.tensor([1.0, -2.0]), torch.tensor([2, 3])).tolist() == [1, 1, -2, -2, -2]
