"""Weights that correct for the difference between the engine that sampled and the trainer that learns.

Truncated importance sampling (TIS): Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL
Training", 2025. IcePop: Ling team, "Small Leak Can Sink a Great Ship: Boost RL Training on MoE with IcePop", 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Correction = Literal["none", "tis", "icepop"]


@dataclass(frozen=True, slots=True)
class ImportanceWeights:
    """Detached, all [T].

    Attributes:
        weight: what the loss is multiplied by.
        ratio: ``exp(train - rollout)`` before limits.
        changed: 1.0 where a limit changed the ratio.
    """

    weight: Tensor
    ratio: Tensor
    changed: Tensor


def tis(ratio: Tensor, low: float, high: float) -> Tensor:
    """``clamp(w, low, high)``: every token counts, none more than `high` times."""
    return ratio.clamp(low, high)


def icepop(ratio: Tensor, low: float, high: float) -> Tensor:
    """``w`` where ``low <= w <= high``, 0 elsewhere: a token outside is dropped, and the others are not scaled up."""
    return torch.where((ratio >= low) & (ratio <= high), ratio, torch.zeros_like(ratio))


def importance_weights(
    train_log_probs: Tensor, rollout_log_probs: Tensor, kind: Correction, low: float, high: float
) -> ImportanceWeights:
    """Weight ``w = exp(train - rollout)`` of each token, limited.

    ``none``: 1. The other two: see `tis` and `icepop`.

    Args:
        train_log_probs: [T] log-probabilities that the trainer computes with the weights that sampled (or its current
            ones, when it takes one step a round).
        rollout_log_probs: [T] the sampler's.
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
    # No gradient: the weight says how much a token counts, it is not a thing to optimise.
    ratio = torch.exp(train_log_probs.detach() - rollout_log_probs.detach())
    if kind == "none":
        return ImportanceWeights(torch.ones_like(ratio), ratio, torch.zeros_like(ratio))
    weight = tis(ratio, low, high) if kind == "tis" else icepop(ratio, low, high)
    return ImportanceWeights(weight, ratio, (weight != ratio).to(ratio.dtype))
