"""From graded groups to one `TrainBatch` for each data-parallel rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slime.data.convert import convert_samples, converted_sequences
from slime.data.sample import Sample, SampleError
from slime.data.schedule import ScheduleOptions, StepPlan, plan_log_probs, plan_steps
from slime.data.shaping import Rewards, fill_rollout_ids, shaped_rewards
from slime.data.train_batch import TrainBatch, TrainSequence, TrainStep

PostProcess = Callable[[list[Sample]], tuple[list[float], list[float]]]
Convert = Callable[[list[Sample]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Sizes, and how rewards become advantages.

    Attributes:
        schedule: sizes of steps and micro-batches.
        normalize_std: divide by the group's standard deviation (``--disable-grpo-std-normalization`` turns it off).
        estimator: ``--advantage-estimator``, which decides how rewards of a group are compared.
        normalize: False with ``--disable-rewards-normalization``: rewards train as they are.
        reward_key: entry of rewards that are mappings, ``--reward-key``.
        supervised: nothing was sampled, so there are no log-probs and no weight versions (``--loss-type sft_loss``).
        post_process: raw rewards and advantages of all samples, instead of comparing them in their groups
            (``--custom-reward-post-process-path``).
        convert: training data of all samples as a mapping of lists, instead of the samples' own fields
            (``--custom-convert-samples-to-train-data-path``).
    """

    schedule: ScheduleOptions
    normalize_std: bool = True
    estimator: str = "grpo"
    normalize: bool = True
    reward_key: str | None = None
    supervised: bool = False
    post_process: PostProcess | None = None
    convert: Convert | None = None


def build_train_batches(groups: list[list[Sample]], options: BatchOptions, round_id: int) -> list[TrainBatch]:
    """Check, compare rewards inside true groups, schedule and split.

    Args:
        groups: graded samples. Samples of one prompt share `group_index`, wherever they stand; without one, a list is
            a group. Groups may differ in size. Pieces of one trajectory share `rollout_id`: together they count once,
            in their group's statistics and in the loss.
        options: see `BatchOptions`.
        round_id: number of the round, kept in the batch.

    Returns:
        One batch for each rank; together they hold every sample once. (A rank that has too few samples for its
        micro-batches gets muted copies: mask 0, weight 0.)

    Raises:
        SampleError: for a sample that breaks its contract.
        ScheduleError: if the samples cannot be scheduled.
        ConvertError: if a hook's training data break the contract.
    """
    samples = [sample for group in groups for sample in group]
    if not samples:
        raise SampleError(f"round {round_id} has no samples to train on; every group was dropped or aborted.")
    for sample in samples:
        sample.check(True, not options.supervised, options.reward_key)
        if sample.rollout_log_probs is None and not options.supervised:
            raise SampleError(f"{sample.name()}: rollout_log_probs is missing; ask the engine for log-probs.")
    sequences = _sequences(groups, samples, options)
    plans = plan_steps(
        [sequence.total_length for sequence in sequences],
        [sequence.rollout_id for sequence in sequences],
        options.schedule,
    )
    ranks = range(options.schedule.dp_size)
    batches = [_batch_of_rank(rank, sequences, plans, options, round_id) for rank in ranks]
    lengths = [[sequence.total_length for sequence in batch.sequences] for batch in batches]
    for batch, indices in zip(batches, plan_log_probs(lengths, options.schedule), strict=True):
        batch.log_prob_indices = indices
    return batches


def _sequences(groups: list[list[Sample]], samples: list[Sample], options: BatchOptions) -> list[TrainSequence]:
    rollout_ids = fill_rollout_ids(samples)
    if options.convert is not None:
        return converted_sequences(options.convert(samples), samples, rollout_ids)
    if options.post_process is not None:
        rewards = Rewards(*options.post_process(samples))
    else:
        rewards = shaped_rewards(
            groups, rollout_ids, options.estimator, options.normalize_std, options.normalize, options.reward_key
        )
    return convert_samples(samples, rewards, rollout_ids)


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
