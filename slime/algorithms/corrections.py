"""Weights that correct for the difference between the engine that sampled and the trainer that learns.

All of them are functions of the ratio ``w = exp(train - rollout)``. This module has the limits on one token; those on
sequences, rejection and veto are `slime.algorithms.mismatch`'s.

Truncated importance sampling (TIS): Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL
Training", 2025. IcePop: Ling team, "Small Leak Can Sink a Great Ship: Boost RL Training on MoE with IcePop", 2025.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

Correction = Literal["none", "tis", "icepop"]


def tis(ratio: Tensor, low: float, high: float) -> Tensor:
    """``clamp(w, low, high)``: every token counts, none more than `high` times."""
    return ratio.clamp(low, high)


def icepop(ratio: Tensor, low: float, high: float) -> Tensor:
    """``w`` where ``low <= w <= high``, 0 elsewhere: a token outside is dropped, and the others are not scaled up."""
    return torch.where((ratio >= low) & (ratio <= high), ratio, torch.zeros_like(ratio))


def limited(ratio: Tensor, kind: Correction, low: float, high: float) -> Tensor:
    """The weight of a ratio: 1 for ``none``, else see `tis` and `icepop`.

    Args:
        ratio: of any shape, not negative.
        kind: "none", "tis" or "icepop".
        low: lower limit, at least 0.
        high: upper limit, at least `low`.

    Raises:
        ValueError: for an unknown kind or limits out of order.
    """
    if kind not in get_args(Correction):
        raise ValueError(f"unknown correction {kind!r}; choose one of: {', '.join(get_args(Correction))}.")
    if not 0 <= low <= high:
        raise ValueError(f"the limits are low {low} and high {high}; they must satisfy 0 <= low <= high.")
    if kind == "none":
        return torch.ones_like(ratio)
    return tis(ratio, low, high) if kind == "tis" else icepop(ratio, low, high)
