"""From graded groups to one `TrainBatch` for each data-parallel rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slime.algorithms.groups import group_advantages
from slime.data.sample import Sample, SampleError, Status
from slime.data.schedule import ScheduleOptions, StepPlan, plan_steps
from slime.data.train_batch import TrainBatch, TrainSequence, TrainStep


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Sizes, and how rewards become advantages.

    Attributes:
        schedule: sizes of steps and micro-batches.
        normalize_std: divide by the group's standard deviation (``--disable-grpo-std-normalization`` turns it off).
    """

    schedule: ScheduleOptions
    normalize_std: bool = True


def build_train_batches(groups: list[list[Sample]], options: BatchOptions, round_id: int) -> list[TrainBatch]:
    """Check, normalise over true groups, schedule and split.

    Args:
        groups: graded samples, those of one prompt together; groups may differ in size.
        options: see `BatchOptions`.
        round_id: number of the round, kept in the batch.

    Returns:
        One batch for each rank; together they hold every sample once. (A rank that has too few samples for its
        micro-batches gets muted copies: mask 0, weight 0.)

    Raises:
        SampleError: for a sample that breaks its contract.
        ScheduleError: if the samples cannot be scheduled.
    """
    samples = [sample for group in groups for sample in group]
    if not samples:
        raise SampleError(f"round {round_id} has no samples to train on; every group was dropped or aborted.")
    for sample in samples:
        sample.check(graded=True)
        if sample.rollout_log_probs is None:
            raise SampleError(f"{sample.name()}: rollout_log_probs is missing; ask the engine for log-probs.")
    rollout_ids = _rollout_ids(samples)
    sequences = _sequences(samples, rollout_ids, _advantages(groups, options.normalize_std))
    plans = plan_steps([sequence.total_length for sequence in sequences], rollout_ids, options.schedule)
    return [_batch_of_rank(rank, sequences, plans, options, round_id) for rank in range(options.schedule.dp_size)]


def _advantages(groups: list[list[Sample]], normalize_std: bool) -> list[float]:
    """One for each sample. A failed grading says nothing about its group: it counts in no statistics and gets 0."""
    graded: list[tuple[int, int, float]] = []
    at = 0
    for slot, group in enumerate(groups):
        for sample in group:
            if sample.verdict != "grader-error":
                graded.append((at, slot, float(sample.reward or 0.0)))
            at += 1
    advantages = [0.0] * at
    found = group_advantages([reward for _, _, reward in graded], [slot for _, slot, _ in graded], normalize_std)
    for (place, _, _), advantage in zip(graded, found, strict=True):
        advantages[place] = advantage
    return advantages


def _rollout_ids(samples: list[Sample]) -> list[int]:
    """Missing ids become the smallest integers that no other sample uses."""
    used = {sample.rollout_id for sample in samples}
    ids: list[int] = []
    following = 0
    for sample in samples:
        if sample.rollout_id is not None:
            ids.append(sample.rollout_id)
            continue
        while following in used:
            following += 1
        used.add(following)
        ids.append(following)
    return ids


def _sequences(samples: list[Sample], rollout_ids: list[int], advantages: list[float]) -> list[TrainSequence]:
    mask_sums: dict[int, int] = {}
    for sample, rollout in zip(samples, rollout_ids, strict=True):
        mask_sums[rollout] = mask_sums.get(rollout, 0) + sample.effective_response_length()
    return [
        TrainSequence(
            tokens=np.asarray(sample.tokens, dtype=np.int64),
            response_length=sample.response_length,
            loss_mask=np.asarray(sample.mask(), dtype=np.float32),
            advantage=advantage,
            raw_reward=float(sample.reward or 0.0),
            rollout_log_probs=np.asarray(sample.rollout_log_probs, dtype=np.float32),
            rollout_id=rollout,
            rollout_mask_sum=max(mask_sums[rollout], 1),
            sample_index=-1 if sample.index is None else sample.index,
            weight_versions=list(sample.weight_versions),
            truncated=sample.status is Status.TRUNCATED,
        )
        for sample, rollout, advantage in zip(samples, rollout_ids, advantages, strict=True)
    ]


def _batch_of_rank(
    rank: int, sequences: list[TrainSequence], plans: list[StepPlan], options: BatchOptions, round_id: int
) -> TrainBatch:
    own: list[TrainSequence] = []
    steps: list[TrainStep] = []
    for plan in plans:
        members = [i for bins in plan.ranks for indices in bins for i in indices]
        micro_batches: list[list[int]] = []
        for indices in plan.ranks[rank]:
            chosen = [sequences[i] for i in indices] or [_muted(sequences, plan.ranks[rank])]
            micro_batches.append(list(range(len(own), len(own) + len(chosen))))
            own.extend(chosen)
        steps.append(
            TrainStep(
                micro_batch_indices=micro_batches,
                num_rollouts=len({sequences[i].rollout_id for i in members}),
                num_tokens=max(int(sum(sequences[i].loss_mask.sum() for i in members)), 1),
            )
        )
    return TrainBatch(round_id, rank, options.schedule.dp_size, own, steps)


def _muted(sequences: list[TrainSequence], bins: list[list[int]]) -> TrainSequence:
    """A copy of the rank's shortest sequence that adds nothing to the loss, to fill a micro-batch."""
    shortest = min((sequences[i] for indices in bins for i in indices), key=lambda sequence: sequence.total_length)
    return replace(shortest, loss_mask=np.zeros_like(shortest.loss_mask))
