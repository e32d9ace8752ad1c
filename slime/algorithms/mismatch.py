"""Masked importance sampling (MIS): corrections on tokens or whole sequences, with rejection and veto.

Liu et al., "When Speed Kills Stability: Demystifying RL Collapse from the Training-Inference Mismatch", 2025. On
sequences the weight is exact but its variance grows with the length; the geometric mean does not depend on the length,
on tokens the weight has the least variance and a bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from slime.algorithms.sequences import sequence_means, sequence_sums, spread

Level = Literal["token", "sequence", "geometric"]
Mode = Literal["truncate", "clip", "mask"]

# exp(20) is 5e8: far above every limit in use, and far below what overflows float32.
LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class MismatchOptions:
    """Named as the flags are.

    Attributes:
        tis_level: what a weight belongs to: ``token`` w_t; ``sequence`` the product of its w_t; ``geometric`` their
            geometric mean.
        tis_mode: ``truncate`` min(w, upper); ``clip`` to [lower, upper]; ``mask`` 0 outside [lower, upper].
        tis_upper_bound, tis_lower_bound: limits of a weight; the lower one is 1 / upper when it is None.
        use_rs: reject what lies outside [rs_lower_bound, rs_upper_bound] at `rs_level`; None = the limits of weights.
        rs_veto_threshold: reject a sequence with one trained token whose ratio is below this; None = no veto.
        tis_batch_normalize: divide the weights by their mean over the optimizer step.
    """

    tis_level: Level = "token"
    tis_mode: Mode = "truncate"
    tis_upper_bound: float = 2.0
    tis_lower_bound: float | None = None
    use_rs: bool = False
    rs_level: Level = "token"
    rs_upper_bound: float | None = None
    rs_lower_bound: float | None = None
    rs_veto_threshold: float | None = None
    tis_batch_normalize: bool = False

    def limits(self) -> tuple[float, float]:
        """Lower and upper limit of a weight."""
        low = 1 / self.tis_upper_bound if self.tis_lower_bound is None else self.tis_lower_bound
        return low, self.tis_upper_bound

    def rejection_limits(self) -> tuple[float, float]:
        """Lower and upper limit of what is not rejected."""
        low, high = self.limits()
        return (
            low if self.rs_lower_bound is None else self.rs_lower_bound,
            high if self.rs_upper_bound is None else self.rs_upper_bound,
        )

    def check(self) -> None:
        """Raises ``ValueError`` for an unknown name or limits out of order."""
        for name, value, known in (
            ("tis_level", self.tis_level, get_args(Level)),
            ("rs_level", self.rs_level, get_args(Level)),
            ("tis_mode", self.tis_mode, get_args(Mode)),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}; choose one of: {', '.join(known)}.")
        for name, (low, high) in (("tis", self.limits()), ("rs", self.rejection_limits())):
            if not 0 <= low <= high:
                raise ValueError(f"{name}_lower_bound {low:g} and {name}_upper_bound {high:g} are out of order.")
        if self.rs_veto_threshold is not None and not 0 < self.rs_veto_threshold < 1:
            raise ValueError(f"rs_veto_threshold is {self.rs_veto_threshold}; it must lie between 0 and 1, e.g. 1e-4.")


@dataclass(frozen=True, slots=True)
class MismatchWeights:
    """Detached, all [T].

    Attributes:
        weight: what the loss is multiplied by, before any normalisation over the step.
        keep: 1.0, or 0.0 for tokens that are rejected. The denominators of the loss do not change.
        ratio: at the weights' level, before limits.
        changed: 1.0 where a limit changed the ratio.
        vetoed: 1.0 for the tokens of sequences that the veto rejected.
    """

    weight: Tensor
    keep: Tensor
    ratio: Tensor
    changed: Tensor
    vetoed: Tensor


def mismatch_weights(
    train_log_probs: Tensor, rollout_log_probs: Tensor, mask: Tensor, lengths: Tensor, options: MismatchOptions
) -> MismatchWeights:
    """Weights and rejections of some sequences.

    Args:
        train_log_probs: [T] by the trainer, with the weights that sampled.
        rollout_log_probs: [T] the sampler's.
        mask: [T], 0 or 1; masked tokens count in no product or mean, and cast no veto.
        lengths: [N] integers that add up to T.

    Raises:
        ValueError: see `MismatchOptions.check`.
    """
    options.check()
    difference = (train_log_probs - rollout_log_probs).detach()
    ratio = _ratio(difference, mask, lengths, options.tis_level)
    low, high = options.limits()
    if options.tis_mode == "truncate":
        weight = ratio.clamp(max=high)
    elif options.tis_mode == "clip":
        weight = ratio.clamp(low, high)
    else:
        weight = torch.where((ratio >= low) & (ratio <= high), ratio, torch.zeros_like(ratio))
    keep = torch.ones_like(ratio)
    if options.use_rs:
        low, high = options.rejection_limits()
        judged = _ratio(difference, mask, lengths, options.rs_level)
        keep = ((judged >= low) & (judged <= high)).to(ratio.dtype)
    vetoed = torch.zeros_like(ratio)
    if options.rs_veto_threshold is not None:
        catastrophic = (difference < math.log(options.rs_veto_threshold)).to(ratio.dtype)
        vetoed = spread((sequence_sums(catastrophic, mask, lengths) > 0).to(ratio.dtype), lengths)
    return MismatchWeights(weight, keep * (1 - vetoed), ratio, (weight != ratio).to(ratio.dtype), vetoed)


def normaliser(weights: MismatchWeights, mask: Tensor, lengths: Tensor, level: Level) -> Tensor:
    """Sum and count of the weights, [2] float64, to be added over a step's micro-batches and ranks; mean = sum / count.

    On ``token`` level every trained token counts, on the others every sequence with one counts once.
    """
    weight, mask = weights.weight.double(), mask.double()
    if level != "token":
        trained = (sequence_sums(mask, mask, lengths) > 0).double()
        return torch.stack([(sequence_means(weight, mask, lengths) * trained).sum(), trained.sum()])
    return torch.stack([(torch.where(mask != 0, weight, torch.zeros_like(weight))).sum(), mask.sum()])


def _ratio(difference: Tensor, mask: Tensor, lengths: Tensor, level: Level) -> Tensor:
    """The ratio of each token, or of its sequence, [T]."""
    if level == "sequence":
        difference = spread(sequence_sums(difference, mask, lengths), lengths)
    elif level == "geometric":
        difference = spread(sequence_means(difference, mask, lengths), lengths)
    return torch.exp(difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
