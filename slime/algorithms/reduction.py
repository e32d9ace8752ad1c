"""From values of tokens to one number, the same number however the step is cut into micro-batches and ranks.

A mean of means depends on the cut. So each token gets a weight that knows the denominators of the whole step, and the
loss is a plain sum of ``weight * value``. Sums can be split anywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_weights(
    loss_masks: list[Tensor],
    rollout_mask_sums: list[int],
    num_rollouts: int,
    num_tokens: int,
    per_token: bool = False,
) -> Tensor:
    """Weight of every response token of some sequences in the loss of their step.

    Default, the mean over rollouts of each rollout's token mean: ``m / (D * num_rollouts)``, where D is the number of
    trained tokens of the rollout, siblings included. `per_token`, the mean over tokens: ``m / num_tokens``.

    Args:
        loss_masks: one [R_i] tensor of 0/1 for each sequence.
        rollout_mask_sums: D of each sequence's rollout; 0 counts as 1.
        num_rollouts: rollouts of the whole step, over all ranks and micro-batches.
        num_tokens: trained tokens of the whole step, over all ranks and micro-batches; 0 counts as 1.
        per_token: choose the mean over tokens.

    Returns:
        [sum R_i], the responses one after another. Trainers that average over ranks or micro-batches afterwards
        (Megatron does) multiply by those counts first.

    Raises:
        ValueError: if the lists differ in length or `num_rollouts` is below 1.
    """
    if len(loss_masks) != len(rollout_mask_sums):
        raise ValueError(f"{len(loss_masks)} masks for {len(rollout_mask_sums)} mask sums; give one of each.")
    if num_rollouts < 1:
        raise ValueError(f"num_rollouts is {num_rollouts}; a step holds at least one rollout.")
    if not loss_masks:
        return torch.zeros(0)
    if per_token:
        return torch.cat(loss_masks) / max(num_tokens, 1)
    scaled = zip(loss_masks, rollout_mask_sums, strict=True)
    return torch.cat([mask / (max(total, 1) * num_rollouts) for mask, total in scaled])


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """``sum(weights * values)``, where tokens of weight 0 count nothing even if their value is not finite.

    Args:
        values: [T].
        weights: [T], from `token_weights`.
    """
    return (torch.where(weights != 0, values, torch.zeros_like(values)) * weights).sum()
