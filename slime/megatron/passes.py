"""Which forward passes a round needs before its first optimizer step, and what is measured with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slime.algorithms.mismatch import MismatchOptions, mismatch_weights, normaliser
from slime.algorithms.whitening import SumOverRanks
from slime.config import Config
from slime.data.train_batch import TrainBatch
from slime.megatron.estimate import ForwardPasses
from slime.megatron.objective import SequenceInputs
from slime.weights.tracker import read_tracker

REFERENCE, TEACHER = "ref", "teacher"
"""Names of the sets of weights that are swapped in."""


def reference_folder(root: Path, step: int) -> Path:
    """Where a run keeps the reference that belongs to its checkpoint of `step`, once it has followed the policy."""
    return root / "reference" / f"iter_{step:07d}"


def reference_source(config: Config, resumed: Path | None) -> tuple[Path, int | None]:
    """Where the reference is, and its step: --ref-load, or beside a checkpoint that was saved after it had followed.

    Args:
        resumed: --load of a run that goes on; None for one that begins.

    Raises:
        CheckpointError: the tracker of `resumed` is damaged.
    """
    step: int | str | None = config.ckpt_step
    if resumed is not None and step is None:
        step = read_tracker(resumed)
    interval = config.ref_update_interval
    if resumed is None or not isinstance(step, int) or interval is None or step + 1 < interval:
        return Path(config.ref_load or ""), config.ref_ckpt_step
    return reference_folder(resumed, step), None


@dataclass(frozen=True)
class Passes:
    """One entry for each pass; True = made in every round.

    Attributes:
        old: log-probs of the weights that the round starts from. With several steps a round they are made anyway; with
            one step the policy itself is the old one, and the pass is left out unless something is measured with it
            before the step, or routers record their choice in it.
        ref, teacher: log-probs of those weights.
        values: of the critic.
        rollout_as_old: the sampler's log-probs stand for the old ones (--use-rollout-logprobs).
    """

    old: bool
    ref: bool
    teacher: bool
    values: bool
    rollout_as_old: bool


def needed_passes(config: Config) -> Passes:
    """From the flags. A KL loss with coefficient 0 is still measured, since it was asked for."""
    if config.loss_type == "sft_loss":
        return Passes(old=False, ref=False, teacher=False, values=False, rollout_as_old=False)
    recorded = config.use_routing_replay and not config.use_rollout_routing_replay
    return Passes(
        old=config.kl_coef != 0 or config.use_opd or config.tis_batch_normalize or recorded,
        ref=config.kl_coef != 0 or config.use_kl_loss,
        teacher=config.use_opd,
        values=config.advantage_estimator == "ppo",
        rollout_as_old=config.use_rollout_logprobs,
    )


def correction_means(
    batch: TrainBatch,
    inputs: Sequence[SequenceInputs],
    options: MismatchOptions | None,
    sum_over_ranks: SumOverRanks,
) -> list[float]:
    """Mean of the MIS weights of each step over all its samples on all ranks; 1 where weights are not normalised.

    Raises:
        ValueError: a step whose weights are all 0: there is nothing to scale up.
    """
    if options is None or not options.tis_batch_normalize:
        return [1.0] * len(batch.steps)
    means = []
    for number, step in enumerate(batch.steps):
        chosen = [i for indices in step.micro_batch_indices for i in indices]
        sequences = [batch.sequences[i] for i in chosen]
        old = [inputs[i].old_log_probs for i in chosen]
        mask = torch.cat([torch.as_tensor(one.loss_mask) for one in sequences])
        lengths = torch.tensor([one.response_length for one in sequences])
        rollout = torch.cat([torch.as_tensor(one.rollout_log_probs) for one in sequences])
        train = torch.cat([values for values in old if values is not None])
        found = mismatch_weights(train, rollout, mask, lengths, options)
        total, count = sum_over_ranks(normaliser(found, mask, lengths, options.tis_level)).tolist()
        if total <= 0:
            raise ValueError(
                f"--tis-batch-normalize: all {count:.0f} weights of step {number} are 0, because every ratio lies "
                "outside the limits; the sampler's weights and the trainer's do not belong together."
            )
        means.append(total / count)
    return means


def sequence_inputs(
    advantages: list[Tensor], passes: ForwardPasses, returns: list[Tensor] | None = None
) -> list[SequenceInputs]:
    """What the loss of each sequence takes besides its sample."""

    def at(parts: list[Tensor] | None, i: int) -> Tensor | None:
        return None if parts is None else parts[i]

    return [
        SequenceInputs(one, at(passes.old, i), at(passes.ref, i), at(passes.values, i), at(returns, i))
        for i, one in enumerate(advantages)
    ]
