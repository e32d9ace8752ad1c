"""Advantages from scalar rewards.

Group-relative advantages: Shao et al., "DeepSeekMath", arXiv:2402.03300, section 4.1.2 (outcome supervision).
Without the division by the standard deviation: Liu et al., "Understanding R1-Zero-Like Training", arXiv:2503.20783.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Keeps a group whose rewards are all equal at advantage 0 instead of 0/0.
STD_EPSILON = 1e-6


def group_advantages(rewards: Tensor, groups: Tensor, normalize_std: bool = True) -> Tensor:
    """Subtract each group's mean and divide by its sample standard deviation.

    ``A_i = (r_i - mean_g) / (std_g + 1e-6)``, std with ``ddof = 1``. Statistics are those of the true group of each
    sample, so groups of different sizes, or samples in any order, come out right. A group of one has no spread to
    divide by: its advantage is 0.

    Args:
        rewards: [N], any float dtype. Statistics are taken in float64.
        groups: [N] integers; samples with the same number are one group.
        normalize_std: False leaves out the division.

    Returns:
        [N], dtype of `rewards`.

    Raises:
        ValueError: if the shapes differ or are not one-dimensional.
    """
    if rewards.dim() != 1 or rewards.shape != groups.shape:
        raise ValueError(
            f"rewards have shape {tuple(rewards.shape)} and groups {tuple(groups.shape)}; "
            "both must be one-dimensional and equally long, one entry a sample."
        )
    values = rewards.double()
    _, slot = torch.unique(groups, return_inverse=True)
    slots = int(slot.max()) + 1 if slot.numel() else 0
    count = values.new_zeros(slots).index_add_(0, slot, torch.ones_like(values))
    mean = values.new_zeros(slots).index_add_(0, slot, values) / count
    centred = values - mean[slot]
    if not normalize_std:
        return centred.to(rewards.dtype)
    squares = values.new_zeros(slots).index_add_(0, slot, centred.square())
    std = (squares / (count - 1).clamp(min=1)).sqrt()
    return (centred / (std[slot] + STD_EPSILON)).to(rewards.dtype)


def spread(advantages: Tensor, lengths: Tensor) -> Tensor:
    """Give every response token its sequence's advantage (GRPO: ``A_t = A`` for all t).

    Args:
        advantages: [N] one scalar a sequence.
        lengths: [N] integers, response tokens of each sequence.

    Returns:
        [sum(lengths)], the responses one after another.
    """
    return torch.repeat_interleave(advantages, lengths)
