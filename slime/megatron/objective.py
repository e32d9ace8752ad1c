"""What the trainer computes for one micro-batch: from outputs to a loss, metrics, and the names of broken samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor

from slime.algorithms.objective import (
    PolicyOptions,
    PolicyTokens,
    policy_objective,
    supervised_objective,
    value_objective,
)
from slime.algorithms.reduction import constant_length_weights, token_weights, weighted_sum
from slime.data.train_batch import TrainSequence, TrainStep
from slime.megatron.batch_checks import TrainBatchError
from slime.megatron.custom import CustomFunctions
from slime.megatron.log_probs import score_tokens, token_values
from slime.megatron.mtp import loss_ahead
from slime.megatron.packing import PackedBatch
from slime.megatron.ranks import pack_for

LossType = Literal["policy_loss", "sft_loss", "custom_loss"]


@dataclass(frozen=True)
class ObjectiveSettings:
    """What the loss is.

    Attributes:
        options: of the policy loss.
        loss_type: --loss-type.
        temperature: the sampler's.
        per_token: average over tokens instead of rollouts.
        constant_length: Dr.GRPO's divisor of the policy term, in tokens; None = what `per_token` says.
        value_clip: --value-clip, of the critic.
        custom: functions of the user's in place of parts of the objective.
        mtp_loss_scaling_factor: --mtp-loss-scaling-factor, of the loss of MTP layers.
        log_probs_chunk: rows of logits in one softmax; None = as many as take a fixed memory.
        recompute: compute the softmax again in the backward pass.
    """

    options: PolicyOptions
    loss_type: LossType = "policy_loss"
    temperature: float = 1.0
    per_token: bool = False
    constant_length: int | None = None
    value_clip: float = 0.2
    custom: CustomFunctions = field(default_factory=CustomFunctions)
    mtp_loss_scaling_factor: float = 0.0
    log_probs_chunk: int | None = None
    recompute: bool = False


@dataclass(frozen=True)
class SequenceInputs:
    """Per-token inputs of one sequence, float32 [R] on the CPU, made before the round's first step.

    Attributes:
        advantages: what the policy term multiplies.
        old_log_probs: None when the round has one step: the current policy is then the one that sampled.
        ref_log_probs: of the reference policy, for a KL term.
        old_values, returns: of the critic.
    """

    advantages: Tensor
    old_log_probs: Tensor | None = None
    ref_log_probs: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None


@dataclass(frozen=True)
class MicroBatch:
    """Sequences of one forward pass with their per-token inputs, on the trainer's device. T = response tokens.

    Attributes:
        tokens: inputs of the policy loss.
        head_ids: int64 [T, k], the sampler's likeliest tokens, for score centering.
        count: rollouts, or with --calculate-per-token-loss tokens, of the whole step.
        count_tokens: trained tokens of the whole step.
        old_values, returns: [T], of the critic.
    """

    sequences: list[TrainSequence]
    packed: PackedBatch
    tokens: PolicyTokens
    count: int
    count_tokens: int
    head_ids: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None


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
    inputs: Sequence[SequenceInputs],
    step: TrainStep,
    settings: ObjectiveSettings,
    model: TransformerConfig,
    device: torch.device,
    correction_mean: float = 1.0,
) -> MicroBatch:
    """Pack `sequences` and lay out their per-token inputs in the same order.

    Args:
        inputs: of each sequence.
        step: gives the denominators of the whole optimizer step.
        model: Megatron's configuration, with the sizes of the parallel groups.
        correction_mean: of MIS weights over the step, see `PolicyTokens`.
    """
    masks = [torch.as_tensor(sequence.loss_mask, dtype=torch.float32) for sequence in sequences]
    sums = [sequence.rollout_mask_sum for sequence in sequences]
    weights = token_weights(masks, sums, step.num_rollouts, step.num_tokens, settings.per_token)
    policy_weights = None
    if settings.constant_length is not None:
        policy_weights = constant_length_weights(masks, settings.constant_length, step.num_rollouts).to(device)
    elif settings.custom.weights is not None:
        # What a reducer makes is a sum over sequences, or over tokens; the step has this many of them.
        count = step.num_tokens if settings.per_token else step.num_rollouts
        policy_weights = settings.custom.weights(sequences, masks, settings.per_token).to(device) / count
    lengths = [sequence.response_length for sequence in sequences]

    def column(name: str) -> Tensor | None:
        parts = [getattr(one, name) for one in inputs]
        return None if parts[0] is None else torch.cat(parts).to(device)

    head_ids, head_log_probs = _likeliest(sequences) if settings.options.score_centering else (None, None)
    tokens = PolicyTokens(
        weights=weights.to(device),
        lengths=torch.tensor(lengths, device=device),
        advantages=torch.cat([one.advantages for one in inputs]).to(device),
        rollout_log_probs=torch.cat(
            [torch.as_tensor(sequence.rollout_log_probs, dtype=torch.float32) for sequence in sequences]
        ).to(device),
        old_log_probs=column("old_log_probs"),
        ref_log_probs=column("ref_log_probs"),
        policy_weights=policy_weights,
        rollout_head_log_probs=None if head_log_probs is None else head_log_probs.to(device),
        correction_mean=correction_mean,
        total_lengths=tuple(sequence.total_length for sequence in sequences),
    )
    return MicroBatch(
        sequences=list(sequences),
        packed=pack_for(model, [torch.as_tensor(sequence.tokens) for sequence in sequences], lengths, device),
        tokens=tokens,
        count=step.num_tokens if settings.per_token else step.num_rollouts,
        count_tokens=step.num_tokens,
        head_ids=None if head_ids is None else head_ids.to(device),
        old_values=column("old_values"),
        returns=column("returns"),
    )


def _likeliest(sequences: Sequence[TrainSequence]) -> tuple[Tensor, Tensor]:
    """The sampler's likeliest ids int64 [T, k] and their log-probs float32.

    Raises:
        TrainBatchError: a sequence came without them.
    """
    ids, log_probs = [], []
    for sequence in sequences:
        if sequence.rollout_topk_token_ids is None or sequence.rollout_topk_log_probs is None:
            raise TrainBatchError(
                f"sample {sequence.sample_index} came without the sampler's likeliest tokens, which "
                "--use-score-centering needs for each of its response tokens."
            )
        ids.append(torch.as_tensor(sequence.rollout_topk_token_ids, dtype=torch.int64))
        log_probs.append(torch.as_tensor(sequence.rollout_topk_log_probs, dtype=torch.float32))
    return torch.cat(ids), torch.cat(log_probs)


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


def evaluate_policy(logits: Tensor, batch: MicroBatch, settings: ObjectiveSettings) -> MicroBatchResult:
    """The policy's or the supervised objective of a micro-batch, with that of its MTP layer, if it has one.

    The metric ``loss`` is that of the policy alone; ``mtp_loss`` is the other, before its coefficient.

    Args:
        logits: [rows, width, vocabulary] for ``batch.packed``.
    """
    result = _evaluate_trunk(logits, batch, settings)
    found = batch.packed.take_logits_ahead()
    if found is None:
        return result
    further = loss_ahead(*found, batch.tokens.weights != 0, batch.count_tokens, settings.temperature)
    metrics = {**result.metrics, "mtp_loss": further.detach()}
    return replace(result, loss=result.loss + settings.mtp_loss_scaling_factor * further, metrics=metrics)


def _evaluate_trunk(logits: Tensor, batch: MicroBatch, settings: ObjectiveSettings) -> MicroBatchResult:
    scores = score_tokens(
        logits,
        batch.packed,
        settings.temperature,
        entropy_gradient=settings.options.entropy_coef != 0,
        head_ids=batch.head_ids,
        chunk_rows=settings.log_probs_chunk,
        recompute=settings.recompute,
    )
    checked = {"log-prob": scores.log_probs.detach()}
    if settings.loss_type == "sft_loss":
        loss, metrics = supervised_objective(batch.tokens.weights, scores.log_probs)
        return _result(loss, metrics, LogProbGap(), find_broken(batch, checked))
    if settings.loss_type == "custom_loss":
        loss, metrics = _custom_loss(logits, batch, settings)
        return _result(loss, metrics, LogProbGap(), find_broken(batch, checked))
    tokens = batch.tokens
    loss, metrics = policy_objective(settings.options, tokens, scores.log_probs, scores.entropy, scores.head_log_probs)
    checked |= {"advantage": tokens.advantages, "rollout log-prob": tokens.rollout_log_probs}
    optional = {"old log-prob": tokens.old_log_probs, "reference log-prob": tokens.ref_log_probs}
    checked |= {name: values for name, values in optional.items() if values is not None}
    old = checked["log-prob"] if tokens.old_log_probs is None else tokens.old_log_probs
    return _result(loss, metrics, measure_gap(old, tokens), find_broken(batch, checked))


def _custom_loss(logits: Tensor, batch: MicroBatch, settings: ObjectiveSettings) -> tuple[Tensor, dict[str, Tensor]]:
    """The user's loss of a micro-batch, as its share of the step's.

    Raises:
        ValueError: no function was given.
    """
    if settings.custom.loss is None:
        raise ValueError("--loss-type custom_loss needs --custom-loss-function-path.")
    tokens, lengths = batch.tokens, batch.packed.response_lengths
    data: dict[str, Any] = {
        "tokens": [torch.as_tensor(one.tokens) for one in batch.sequences],
        "total_lengths": list(tokens.total_lengths),
        "response_lengths": lengths,
        "loss_masks": list((tokens.weights != 0).float().split(lengths)),
        "logit_rows": batch.packed.logit_rows,
        "targets": batch.packed.targets,
    }
    columns = {"advantages": tokens.advantages, "rollout_log_probs": tokens.rollout_log_probs}
    columns |= {
        name: values
        for name, values in (("log_probs", tokens.old_log_probs), ("ref_log_probs", tokens.ref_log_probs))
        if values is not None
    }
    data |= {name: list(values.split(lengths)) for name, values in columns.items()}
    loss, metrics = settings.custom.loss(
        data, logits, lambda values: weighted_sum(values, tokens.weights) * batch.count
    )
    return loss / batch.count, {name: value / batch.count for name, value in metrics.items()}


def evaluate_values(outputs: Tensor, batch: MicroBatch, settings: ObjectiveSettings) -> MicroBatchResult:
    """The critic's objective of a micro-batch.

    Args:
        outputs: [rows, width, 1] of the value head.

    Raises:
        ValueError: the batch has no old values and returns.
    """
    if batch.old_values is None or batch.returns is None:
        raise ValueError("the critic needs old values and returns of every token, and this batch has none.")
    values = token_values(outputs, batch.packed)
    loss, metrics = value_objective(batch.tokens.weights, values, batch.old_values, batch.returns, settings.value_clip)
    checked = {"value": values.detach(), "return": batch.returns}
    return _result(loss, metrics, LogProbGap(), find_broken(batch, checked))


def _result(loss: Tensor, metrics: dict[str, Tensor], gap: LogProbGap, broken: list[str]) -> MicroBatchResult:
    return MicroBatchResult(loss, {"loss": loss.detach(), **metrics}, gap, broken)


def measure_gap(log_probs: Tensor, tokens: PolicyTokens) -> LogProbGap:
    """Difference between `log_probs` [T] and the sampler's, over tokens that train."""
    gaps = (log_probs - tokens.rollout_log_probs).abs()[tokens.weights != 0]
    if gaps.numel() == 0:
        return LogProbGap()
    return LogProbGap(float(gaps.sum(dtype=torch.float64)), gaps.numel(), float(gaps.max()))


def find_broken(batch: MicroBatch, parts: dict[str, Tensor]) -> list[str]:
    """Names of the samples in which a token that trains has a value that is not finite; `parts` are [T] by name."""
    found = []
    for what, values in parts.items():
        wrong = ~torch.isfinite(values) & (batch.tokens.weights != 0)
        if not bool(wrong.any()):
            continue
        lengths = batch.packed.response_lengths
        pieces = zip(batch.sequences, values.split(lengths), wrong.split(lengths), strict=True)
        for sequence, value, bad in pieces:
            if bool(bad.any()):
                at = int(bad.nonzero()[0])
                found.append(f"sample {sequence.sample_index} ({what} {float(value[at])} at response token {at})")
    return found
