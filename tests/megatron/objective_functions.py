"""Functions as a user writes them, each the twin of something built in; and some that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def rewards_as_advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """GRPO's: the reward of the response for each of its tokens."""
    lengths = rollout_data["response_lengths"]
    rollout_data["advantages"] = [torch.full((n,), r) for r, n in zip(rollout_data["rewards"], lengths, strict=True)]
    rollout_data["returns"] = rollout_data["advantages"]


def half_of_advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """Sets one of two."""
    rollout_data["advantages"] = [torch.zeros(n) for n in rollout_data["response_lengths"]]


def truncated_sampling(
    *,
    args: Any,
    pg_loss: Tensor,
    train_log_probs: list[Tensor],
    rollout_log_probs: list[Tensor],
    loss_masks: list[Tensor],
    **others: Any,
) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    """TIS's."""
    weight = torch.exp(torch.cat(train_log_probs) - torch.cat(rollout_log_probs)).detach()
    clamped = weight.clamp(args.tis_clip_low, args.tis_clip)
    return pg_loss * clamped, loss_masks, {"tis": weight, "tis_clipfrac": (clamped != weight).float()}


def without_masks(*, pg_loss: Tensor, **others: Any) -> Tensor:
    """Gives back the loss alone."""
    return pg_loss


def sample_means(
    total_lengths: list[int], response_lengths: list[int], masks: list[Tensor], per_token: bool
) -> Callable[[Tensor], Tensor]:
    """The default's: the mean over the trained tokens of each sample, summed."""

    def reduce(values: Tensor) -> Tensor:
        parts = values.split(response_lengths)
        return torch.stack([(v * m).sum() / m.sum() for v, m in zip(parts, masks, strict=True)]).sum()

    return reduce


def constant_sums(
    total_lengths: list[int], response_lengths: list[int], masks: list[Tensor], per_token: bool
) -> Callable[[Tensor], Tensor]:
    """Dr.GRPO's, with the longest response of the tests."""
    return lambda values: (values * torch.cat(masks)).sum() / 8


def squares(
    total_lengths: list[int], response_lengths: list[int], masks: list[Tensor], per_token: bool
) -> Callable[[Tensor], Tensor]:
    """Depends on how the step is cut."""
    return lambda values: values.square().sum()


def cross_entropy(
    args: Any, batch: dict[str, Any], logits: Tensor, sum_of_sample_mean: Callable[[Tensor], Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Supervised fine-tuning's."""
    chosen = logits.flatten(0, 1)[batch["logit_rows"]]
    per_token = torch.nn.functional.cross_entropy(chosen, batch["targets"], reduction="none")
    loss = sum_of_sample_mean(per_token)
    return loss, {"cross_entropy": loss.detach()}


def no_loss(
    args: Any, batch: dict[str, Any], logits: Tensor, sum_of_sample_mean: Callable[[Tensor], Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """A number that no weight can change."""
    return torch.zeros(()), {}
