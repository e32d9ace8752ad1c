"""The whole policy objective of one micro-batch: clipped loss, correction, KL and entropy terms, and their metrics."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from slime.algorithms.corrections import Correction, importance_weights
from slime.algorithms.kl import KLEstimator, kl_estimate
from slime.algorithms.losses import clipped_policy_loss
from slime.algorithms.reduction import weighted_sum


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """Numbers of the objective, named as the flags are. `correction_low/high` are --tis-clip-low and --tis-clip."""

    eps_clip: float = 0.2
    eps_clip_high: float = 0.2
    eps_clip_c: float | None = None
    correction: Correction = "none"
    correction_low: float = 0.0
    correction_high: float = 2.0
    entropy_coef: float = 0.0
    kl_loss_coef: float = 0.0
    kl_loss_type: KLEstimator = "k1"


def policy_objective(
    options: PolicyOptions,
    weights: Tensor,
    log_probs: Tensor,
    rollout_log_probs: Tensor,
    advantages: Tensor,
    old_log_probs: Tensor | None = None,
    ref_log_probs: Tensor | None = None,
    entropy: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """``sum_t weights_t (w_t L_t + kl_loss_coef KL_t - entropy_coef H_t)`` over the response tokens of a micro-batch.

    Args:
        options: coefficients and limits.
        weights: [T] from `slime.algorithms.reduction.token_weights`.
        log_probs: [T] under the current policy; gradient flows through them.
        rollout_log_probs: [T] the sampler's.
        advantages: [T].
        old_log_probs: [T] what the clip range is measured from; None = the current policy (one step a round).
        ref_log_probs: [T]; required when `kl_loss_coef` is not 0.
        entropy: [T]; required when `entropy_coef` is not 0, else only reported.

    Returns:
        The loss (scalar) and metrics, each already weighted: adding them over micro-batches and ranks gives the mean of
        the step. Keys as in the field: pg_loss, pg_clipfrac, ppo_kl, train_rollout_logprob_abs_diff, and with their
        terms kl_loss, entropy_loss, tis, tis_clipfrac, tis_abs.

    Raises:
        ValueError: if a term is asked for without its input.
    """
    _check_inputs(options, ref_log_probs, entropy)
    old = log_probs.detach() if old_log_probs is None else old_log_probs
    policy, clipped = clipped_policy_loss(
        log_probs, old, advantages, options.eps_clip, options.eps_clip_high, options.eps_clip_c
    )
    correction = importance_weights(
        old, rollout_log_probs, options.correction, options.correction_low, options.correction_high
    )
    values = policy * correction.weight
    metrics = {
        "pg_loss": weighted_sum(values, weights),
        "pg_clipfrac": weighted_sum(clipped, weights),
        "ppo_kl": weighted_sum(old - log_probs, weights),
        "train_rollout_logprob_abs_diff": weighted_sum((old - rollout_log_probs).abs(), weights),
    }
    if options.correction != "none":
        metrics["tis"] = weighted_sum(correction.ratio, weights)
        metrics["tis_clipfrac"] = weighted_sum(correction.changed, weights)
        metrics["tis_abs"] = weighted_sum((correction.ratio - 1).abs(), weights)
    loss = metrics["pg_loss"]
    if ref_log_probs is not None:
        metrics["kl_loss"] = weighted_sum(kl_estimate(log_probs, ref_log_probs, options.kl_loss_type), weights)
        if options.kl_loss_coef:
            loss = loss + options.kl_loss_coef * metrics["kl_loss"]
    if entropy is not None:
        metrics["entropy_loss"] = weighted_sum(entropy, weights)
        if options.entropy_coef:
            loss = loss - options.entropy_coef * metrics["entropy_loss"]
    return loss, {name: value.detach() for name, value in metrics.items()}


def _check_inputs(options: PolicyOptions, ref_log_probs: Tensor | None, entropy: Tensor | None) -> None:
    if options.kl_loss_coef and ref_log_probs is None:
        raise ValueError(f"kl_loss_coef is {options.kl_loss_coef} but there are no reference log-probs.")
    if options.entropy_coef and entropy is None:
        raise ValueError(f"entropy_coef is {options.entropy_coef} but no entropy was given.")
