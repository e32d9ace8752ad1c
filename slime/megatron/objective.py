"""What the trainer computes for one micro-batch: from logits to a loss, metrics, and the names of broken samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slime.algorithms.objective import PolicyOptions, PolicyTokens, policy_objective
from slime.algorithms.reduction import token_weights
from slime.algorithms.sequences import spread
from slime.data.train_batch import TrainSequence, TrainStep
from slime.megatron.log_probs import score_tokens
from slime.megatron.packing import PackedBatch, pack


@dataclass(frozen=True)
class ObjectiveSettings:
    """`temperature` is the sampler's. `per_token` averages over tokens instead of rollouts."""

    options: PolicyOptions
    temperature: float = 1.0
    per_token: bool = False


@dataclass(frozen=True)
class MicroBatch:
    """Sequences of one forward pass with their per-token inputs, on the trainer's device. T = response tokens."""

    sequences: list[TrainSequence]
    packed: PackedBatch
    weights: Tensor
    advantages: Tensor
    rollout_log_probs: Tensor
    old_log_probs: Tensor | None


@dataclass(frozen=True)
class LogProbGap:
    """Difference between the trainer's and the sampler's log-probs over trained tokens; mergeable."""

    total: float = 0.0
    tokens: int = 0
    largest: float = 0.0

    def merged(self, other: LogProbGap) -> LogProbGap:
        """Both together."""
        return LogProbGap(self.total + other.total, self.tokens + other.tokens, max(self.largest, other.largest))


def make_micro_batch(
    sequences: Sequence[TrainSequence],
    step: TrainStep,
    settings: ObjectiveSettings,
    device: torch.device,
    old_log_probs: Sequence[Tensor] | None = None,
) -> MicroBatch:
    """Pack `sequences` and lay out their per-token inputs in the same order.

    Args:
        step: gives the denominators of the whole optimizer step.
        old_log_probs: [R_i] of each sequence, computed before the round's first step; None when the round has one step,
            since the current policy is then the one that sampled.
    """
    masks = [torch.as_tensor(sequence.loss_mask, dtype=torch.float32) for sequence in sequences]
    weights = token_weights(
        masks,
        [sequence.rollout_mask_sum for sequence in sequences],
        step.num_rollouts,
        step.num_tokens,
        settings.per_token,
    )
    lengths = torch.tensor([sequence.response_length for sequence in sequences])
    advantages = spread(torch.tensor([sequence.advantage for sequence in sequences], dtype=torch.float32), lengths)
    rollout = [torch.as_tensor(sequence.rollout_log_probs, dtype=torch.float32) for sequence in sequences]
    return MicroBatch(
        sequences=list(sequences),
        packed=pack([torch.as_tensor(s.tokens) for s in sequences], lengths.tolist(), device),
        weights=weights.to(device),
        advantages=advantages.to(device),
        rollout_log_probs=torch.cat(rollout).to(device),
        old_log_probs=None if old_log_probs is None else torch.cat(list(old_log_probs)).to(device),
    )


@dataclass(frozen=True)
class MicroBatchResult:
    """`loss` (scalar, with gradient) and detached `metrics` are shares of the step's: adding them up gives the step's.

    Attributes:
        broken: samples with a log-prob or loss that is not finite, as "sample 17 (log-prob nan at token 3)".
    """

    loss: Tensor
    metrics: dict[str, Tensor]
    gap: LogProbGap
    broken: list[str]


def evaluate_micro_batch(logits: Tensor, batch: MicroBatch, settings: ObjectiveSettings) -> MicroBatchResult:
    """The policy objective of a micro-batch.

    Args:
        logits: [rows, width, vocabulary] for ``batch.packed``.
    """
    scores = score_tokens(logits, batch.packed, settings.temperature)
    tokens = PolicyTokens(
        batch.weights,
        torch.tensor(batch.packed.response_lengths, device=batch.weights.device),
        batch.advantages,
        batch.rollout_log_probs,
        batch.old_log_probs,
    )
    loss, metrics = policy_objective(settings.options, tokens, scores.log_probs, scores.entropy)
    old = scores.log_probs.detach() if batch.old_log_probs is None else batch.old_log_probs
    return MicroBatchResult(
        loss=loss,
        metrics={"loss": loss.detach(), **metrics},
        gap=measure_gap(old, batch),
        broken=find_broken(scores.log_probs.detach(), batch),
    )


def measure_gap(log_probs: Tensor, batch: MicroBatch) -> LogProbGap:
    """Difference between `log_probs` [T] and the sampler's, over tokens that train."""
    gaps = (log_probs - batch.rollout_log_probs).abs()[batch.weights != 0]
    if gaps.numel() == 0:
        return LogProbGap()
    return LogProbGap(float(gaps.sum(dtype=torch.float64)), gaps.numel(), float(gaps.max()))


def find_broken(log_probs: Tensor, batch: MicroBatch) -> list[str]:
    """Names of the samples in which a token that trains has an input or a log-prob that is not finite."""
    parts = {"log-prob": log_probs, "advantage": batch.advantages, "rollout log-prob": batch.rollout_log_probs}
    if batch.old_log_probs is not None:
        parts["old log-prob"] = batch.old_log_probs
    found = []
    for what, values in parts.items():
        wrong = ~torch.isfinite(values) & (batch.weights != 0)
        if not bool(wrong.any()):
            continue
        lengths = batch.packed.response_lengths
        pieces = zip(batch.sequences, values.split(lengths), wrong.split(lengths), strict=True)
        for sequence, value, bad in pieces:
            if bool(bad.any()):
                at = int(bad.nonzero()[0])
                found.append(f"sample {sequence.sample_index} ({what} {float(value[at])} at response token {at})")
    return found
