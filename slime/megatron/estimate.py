"""From what was sampled to advantages and returns of tokens, for one round on all data-parallel ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slime.algorithms.advantages import Estimator, distilled, ppo, reinforce_plus_plus, reinforce_plus_plus_baseline
from slime.algorithms.kl import KLEstimator, kl_estimate
from slime.algorithms.sequences import spread
from slime.algorithms.whitening import SumOverRanks, whiten
from slime.data.train_batch import TrainSequence


@dataclass(frozen=True)
class EstimatorOptions:
    """Named as the flags are. `opd_kl_coef` is None without --use-opd; `kl_loss_type` also estimates --kl-coef's KL."""

    advantage_estimator: Estimator = "grpo"
    gamma: float = 1.0
    lambd: float = 1.0
    kl_coef: float = 0.0
    kl_loss_type: KLEstimator = "k1"
    normalize_advantages: bool = False
    opd_kl_coef: float | None = None


CustomEstimate = Callable[[list[Tensor] | None], tuple[list[Tensor], list[Tensor]]]
"""From the KL estimates of each sequence to advantages and returns, all [R_i]."""


@dataclass(frozen=True)
class ForwardPasses:
    """What was computed before the round's first step: float32 [R_i] on the CPU for each sequence, or None.

    Attributes:
        old: log-probs under the weights that the round starts from.
        ref: under the reference policy.
        teacher: under the teacher.
        values: of the critic.
    """

    old: list[Tensor] | None = None
    ref: list[Tensor] | None = None
    teacher: list[Tensor] | None = None
    values: list[Tensor] | None = None


@dataclass(frozen=True)
class Estimates:
    """Advantages and returns [R_i] of each sequence, and means over all ranks' trained tokens."""

    advantages: list[Tensor]
    returns: list[Tensor]
    metrics: dict[str, float] = field(default_factory=dict)


def estimate(
    sequences: Sequence[TrainSequence],
    passes: ForwardPasses,
    options: EstimatorOptions,
    sum_over_ranks: SumOverRanks,
    custom: CustomEstimate | None = None,
) -> Estimates:
    """Advantages of this rank's sequences; every rank calls it, also for sums over ranks.

    Args:
        sequences: at least one; their `advantage` is the scalar that `slime.algorithms.groups.shape_rewards` made.
        passes: the estimator's inputs: `old` and `ref` for a KL penalty, `values` for PPO, `old` and `teacher` for
            distillation.
        sum_over_ranks: adds a float64 tensor over the data-parallel ranks.
        custom: in place of the estimator (--custom-advantage-function-path).

    Raises:
        ValueError: an input is missing, or no token of the round trains and advantages are whitened.
    """
    lengths = torch.tensor([sequence.response_length for sequence in sequences])
    rewards = torch.tensor([sequence.advantage for sequence in sequences], dtype=torch.float32)
    mask = torch.cat([torch.as_tensor(sequence.loss_mask, dtype=torch.float32) for sequence in sequences])
    columns: dict[str, Tensor] = {}
    if options.kl_coef:
        columns["kl"] = kl_estimate(_joined(passes.old, "old"), _joined(passes.ref, "ref"), options.kl_loss_type)
    if custom is None:
        advantages, returns = _by_estimator(rewards, lengths, mask, passes, columns.get("kl"), options)
    else:
        kl = columns.get("kl")
        found = custom(None if kl is None else list(kl.split(lengths.tolist())))
        advantages, returns = torch.cat(found[0]), torch.cat(found[1])
    if options.opd_kl_coef is not None:
        old, teacher = _joined(passes.old, "old"), _joined(passes.teacher, "teacher")
        columns["opd_reverse_kl"] = old - teacher
        advantages = distilled(advantages, old, teacher, options.opd_kl_coef)
    if options.normalize_advantages:
        advantages = whiten(advantages, mask, sum_over_ranks)
    columns |= {"advantages": advantages, "returns": returns}
    if passes.values is not None:
        columns["values"] = _joined(passes.values, "values")
    sizes = lengths.tolist()
    means = _means(columns, mask, sum_over_ranks)
    return Estimates(list(advantages.split(sizes)), list(returns.split(sizes)), means)


def _by_estimator(
    rewards: Tensor,
    lengths: Tensor,
    mask: Tensor,
    passes: ForwardPasses,
    kl: Tensor | None,
    options: EstimatorOptions,
) -> tuple[Tensor, Tensor]:
    if options.advantage_estimator == "ppo":
        values = _joined(passes.values, "values")
        return ppo(rewards, lengths, mask, values, kl, options.kl_coef, options.gamma, options.lambd)
    if options.advantage_estimator == "reinforce_plus_plus":
        # A sequence that is masked entirely (a copy that fills up a rank, an answer taken out) needs no advantage.
        trained = torch.stack([part.sum() for part in mask.split(lengths.tolist())]) > 0
        usable = torch.where(spread(trained, lengths), mask, torch.ones_like(mask))
        advantages = reinforce_plus_plus(rewards, lengths, usable, kl, options.kl_coef, options.gamma)
    elif options.advantage_estimator == "reinforce_plus_plus_baseline":
        advantages = reinforce_plus_plus_baseline(rewards, lengths, mask, kl, options.kl_coef)
    else:
        advantages = spread(rewards, lengths)
    return advantages, advantages


def _joined(parts: list[Tensor] | None, name: str) -> Tensor:
    if parts is None:
        raise ValueError(f"the estimator needs {name!r} of every sequence, and that pass was not made.")
    return torch.cat(parts)


def _means(columns: dict[str, Tensor], mask: Tensor, sum_over_ranks: SumOverRanks) -> dict[str, float]:
    """Mean of each column over all ranks' trained tokens; what a masked token holds does not matter."""
    trained = mask != 0
    sums = [values.double()[trained].sum() for values in columns.values()]
    total = sum_over_ranks(torch.stack([*sums, trained.sum().double()]))
    return {name: float(value / total[-1].clamp(min=1)) for name, value in zip(columns, total[:-1], strict=True)}
