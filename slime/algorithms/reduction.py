"""From values of tokens to one number, the same number however the step is cut into micro-batches and ranks.

A mean of means depends on the cut. So each token gets a weight that knows the denominators of the whole step, and the
loss is a plain sum of ``weight * value``. Sums can be split anywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Reducer = Callable[[Tensor], Tensor]


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


def constant_length_weights(loss_masks: list[Tensor], length: int, num_rollouts: int) -> Tensor:
    """Dr.GRPO: every token weighs the same whatever the length of its response, ``m / (length * num_rollouts)``.

    Dividing by the response's own length favours short right answers and long wrong ones. Liu et al., "Understanding
    R1-Zero-Like Training", arXiv:2503.20783, section 3; peers divide by the longest response that is allowed.

    Args:
        loss_masks: one [R_i] tensor of 0/1 for each sequence.
        length: the constant, at least 1.
        num_rollouts: rollouts of the whole step.
    """
    if length < 1:
        raise ValueError(f"the constant length is {length}; it must be at least 1, usually the longest response.")
    return torch.cat(loss_masks) / (length * num_rollouts)


def weights_of(reducer: Reducer, tokens: int) -> Tensor:
    """The weights [tokens] with which a linear reducer sums up the values of a micro-batch.

    Raises:
        ValueError: the reducer's answer does not depend on the values, is no single number, or is not linear.
    """
    values = torch.zeros(tokens, requires_grad=True)
    total = reducer(values)
    if total.numel() != 1 or not total.requires_grad:
        raise ValueError(
            f"the reducer made a tensor of shape {tuple(total.shape)}; it must sum the values to a number."
        )
    (weights,) = torch.autograd.grad(total.sum(), values)
    probe = torch.linspace(-1, 2, tokens)
    zero, found, expected = float(total.detach()), float(reducer(probe)), float((weights * probe).sum())
    if zero != 0 or abs(expected - found) > 1e-4 * max(1.0, abs(expected)):
        raise ValueError(
            f"the reducer is not linear (it gives {zero:g} for zeros, {found:g} where a weighted sum is {expected:g}), "
            "so its result would depend on how the step is cut into micro-batches."
        )
    return weights.detach()


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """``sum(weights * values)``, where tokens of weight 0 count nothing even if their value is not finite.

    Args:
        values: [T].
        weights: [T], from `token_weights`.
    """
    return (torch.where(weights != 0, values, torch.zeros_like(values)) * weights).sum()
