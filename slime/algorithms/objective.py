"""The whole objective of one micro-batch: policy loss, corrections, KL and entropy terms, and their metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slime.algorithms.centering import centering_top_k
from slime.algorithms.corrections import Correction, limited
from slime.algorithms.kl import KLEstimator, kl_estimate
from slime.algorithms.losses import (
    cispo_loss,
    clipped_policy_loss,
    clipped_value_loss,
    off_policy_sequences,
    reinforce_loss,
    sequence_log_ratio,
)
from slime.algorithms.mismatch import MismatchOptions, mismatch_weights
from slime.algorithms.reduction import weighted_sum

PolicyForm = Literal["clip", "gspo", "cispo", "reinforce"]
Metrics = dict[str, Tensor]
Corrected = tuple[Tensor, Tensor, Metrics]
"""Losses of tokens [T]; 1.0 or 0.0 [T] for those that are kept or rejected; metrics [T] by name."""


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """Numbers of the objective, named as the flags are.

    Attributes:
        form: of the policy loss. ``clip`` is PPO's, which GRPO, RLOO and REINFORCE++ share.
        correction, correction_low, correction_high: --use-tis with --tis-clip-low and --tis-clip, or IcePop.
        mismatch: MIS in place of `correction`.
        correction_applied: False only reports the correction's metrics (--get-mismatch-metrics).
        opsm_delta: --opsm-delta, or None without --use-opsm.
        custom_correction: a function in place of all of them.
        score_centering: add SC's term; needs the form ``reinforce`` and the sampler's most likely tokens.
        unbiased_kl: weight the KL term by the importance ratio.
    """

    form: PolicyForm = "clip"
    eps_clip: float = 0.2
    eps_clip_high: float = 0.2
    eps_clip_c: float | None = None
    correction: Correction = "none"
    correction_low: float = 0.0
    correction_high: float = 2.0
    mismatch: MismatchOptions | None = None
    correction_applied: bool = True
    custom_correction: CustomCorrection | None = None
    opsm_delta: float | None = None
    score_centering: bool = False
    entropy_coef: float = 0.0
    kl_loss_coef: float = 0.0
    kl_loss_type: KLEstimator = "k1"
    unbiased_kl: bool = False


@dataclass(frozen=True, slots=True)
class PolicyTokens:
    """What the policy objective needs of each response token; T tokens of N sequences, one after another.

    Attributes:
        weights: [T] from `slime.algorithms.reduction.token_weights`; 0 = the token does not train.
        lengths: [N] integers that add up to T.
        advantages: [T].
        rollout_log_probs: [T] the sampler's.
        old_log_probs: [T] of the weights before the round's first step; None = the current policy (one step a round).
        ref_log_probs: [T] of the reference; needed for a KL term.
        policy_weights: [T] in place of `weights` for the policy term alone (Dr.GRPO, custom reducers), or None.
        rollout_head_log_probs: [T, k] the sampler's k most likely tokens; needed for score centering.
        correction_mean: mean of MIS weights over the step, by which they are divided; 1 = not normalised.
        total_lengths: tokens of prompt and response of each sequence, for a function of the user's.
    """

    weights: Tensor
    lengths: Tensor
    advantages: Tensor
    rollout_log_probs: Tensor
    old_log_probs: Tensor | None = None
    ref_log_probs: Tensor | None = None
    policy_weights: Tensor | None = None
    rollout_head_log_probs: Tensor | None = None
    correction_mean: float = 1.0
    total_lengths: tuple[int, ...] = ()


CustomCorrection = Callable[[Tensor, Tensor, PolicyTokens], Corrected]
"""From the loss of each token [T], the trainer's log-probs of the old policy [T] and the other inputs."""


def policy_objective(
    options: PolicyOptions,
    tokens: PolicyTokens,
    log_probs: Tensor,
    entropy: Tensor | None = None,
    head_log_probs: Tensor | None = None,
) -> tuple[Tensor, Metrics]:
    """``sum_t weights_t (w_t L_t + kl_loss_coef KL_t - entropy_coef H_t)`` over the response tokens of a micro-batch.

    Args:
        options: coefficients and limits.
        tokens: see `PolicyTokens`.
        log_probs: [T] under the current policy; gradient flows through them.
        entropy: [T]; required when `entropy_coef` is not 0 (with gradient), else only reported.
        head_log_probs: [T, k] of the tokens in ``tokens.rollout_head_log_probs``; gradient flows through them.

    Returns:
        The loss (scalar) and metrics, each already weighted: adding them over micro-batches and ranks gives the mean of
        the step. Keys as in the field: pg_loss, pg_clipfrac, ppo_kl, train_rollout_logprob_abs_diff, and with their
        terms kl_loss, entropy_loss, ois, tis, tis_clipfrac, tis_abs, rs_reject, rs_veto, opsm_clipfrac, sc_correction.

    Raises:
        ValueError: if a term is asked for without its input.
    """
    _check_inputs(options, tokens, entropy, head_log_probs)
    weights = tokens.weights
    old = log_probs.detach() if tokens.old_log_probs is None else tokens.old_log_probs
    policy, metrics = _policy_terms(options, tokens, log_probs, old, head_log_probs)
    loss = weighted_sum(policy, weights if tokens.policy_weights is None else tokens.policy_weights)
    metrics["pg_loss"] = loss
    metrics["train_rollout_logprob_abs_diff"] = weighted_sum((old - tokens.rollout_log_probs).abs(), weights)
    if tokens.ref_log_probs is not None:
        sampled = old if options.unbiased_kl else None
        kl = kl_estimate(log_probs, tokens.ref_log_probs, options.kl_loss_type, sampled)
        metrics["kl_loss"] = weighted_sum(kl, weights)
        if options.kl_loss_coef:
            loss = loss + options.kl_loss_coef * metrics["kl_loss"]
    if entropy is not None:
        metrics["entropy_loss"] = weighted_sum(entropy, weights)
        if options.entropy_coef:
            loss = loss - options.entropy_coef * metrics["entropy_loss"]
    return loss, {name: value.detach() for name, value in metrics.items()}


def _policy_terms(
    options: PolicyOptions, tokens: PolicyTokens, log_probs: Tensor, old: Tensor, head_log_probs: Tensor | None
) -> tuple[Tensor, Metrics]:
    """The policy loss of each token with its corrections [T], and metrics."""
    weights, mask = tokens.weights, (tokens.weights != 0).to(log_probs.dtype)
    log_ratio = log_probs - old
    if options.form == "gspo":
        log_ratio = sequence_log_ratio(log_ratio, mask, tokens.lengths)
    metrics: Metrics = {"ppo_kl": weighted_sum(-log_ratio, weights)}
    values, clipped = _policy_loss(options, log_probs, log_ratio, tokens.advantages)
    metrics["pg_clipfrac"] = weighted_sum(clipped, weights)
    train = log_probs.detach() if options.form == "reinforce" else old
    factor, found = _correction(options, tokens, mask, train)
    if options.custom_correction is not None:
        corrected, keep, named = options.custom_correction(values, train, tokens)
        found = {name: weighted_sum(value, weights) for name, value in named.items()}
        values = corrected * keep if options.correction_applied else values
    metrics |= found
    if found:
        metrics["ois"] = weighted_sum(torch.exp(log_ratio), weights)
    values = values * factor
    if options.opsm_delta is not None:
        kept = off_policy_sequences(log_probs - old, tokens.advantages, mask, tokens.lengths, options.opsm_delta)
        metrics["opsm_clipfrac"] = weighted_sum(1 - kept, weights)
        values = values * kept
    if options.score_centering and head_log_probs is not None and tokens.rollout_head_log_probs is not None:
        term = centering_top_k(
            head_log_probs,
            tokens.rollout_head_log_probs,
            options.correction,
            options.correction_low,
            options.correction_high,
        )
        metrics["sc_correction"] = weighted_sum(tokens.advantages * term, weights)
        metrics["sc_sampler_head_mass"] = weighted_sum(tokens.rollout_head_log_probs.exp().sum(-1), weights)
        metrics["sc_train_head_mass"] = weighted_sum(head_log_probs.exp().sum(-1), weights)
        values = values + tokens.advantages * term
    return values, metrics


def _policy_loss(
    options: PolicyOptions, log_probs: Tensor, log_ratio: Tensor, advantages: Tensor
) -> tuple[Tensor, Tensor]:
    if options.form == "reinforce":
        return reinforce_loss(log_probs, advantages), torch.zeros_like(log_probs)
    if options.form == "cispo":
        return cispo_loss(log_probs, log_ratio, advantages, options.eps_clip, options.eps_clip_high)
    return clipped_policy_loss(log_ratio, advantages, options.eps_clip, options.eps_clip_high, options.eps_clip_c)


def _correction(
    options: PolicyOptions, tokens: PolicyTokens, mask: Tensor, train_log_probs: Tensor
) -> tuple[Tensor | float, Metrics]:
    """What the policy loss is multiplied by, [T] or 1.0, and metrics; all detached."""
    weights, metrics = tokens.weights, Metrics()
    if options.mismatch is not None:
        found = mismatch_weights(train_log_probs, tokens.rollout_log_probs, mask, tokens.lengths, options.mismatch)
        ratio, weight, changed = found.ratio, found.weight / tokens.correction_mean * found.keep, found.changed
        metrics["rs_reject"] = weighted_sum(1 - found.keep, weights)
        metrics["rs_veto"] = weighted_sum(found.vetoed, weights)
    elif options.correction != "none":
        ratio = torch.exp((train_log_probs - tokens.rollout_log_probs).detach())
        weight = limited(ratio, options.correction, options.correction_low, options.correction_high)
        changed = (weight != ratio).to(ratio.dtype)
    else:
        return 1.0, metrics
    metrics["tis"] = weighted_sum(ratio, weights)
    metrics["tis_clipfrac"] = weighted_sum(changed, weights)
    metrics["tis_abs"] = weighted_sum((ratio - 1).abs(), weights)
    return weight if options.correction_applied else 1.0, metrics


def supervised_objective(weights: Tensor, log_probs: Tensor) -> tuple[Tensor, Metrics]:
    """Supervised fine-tuning: ``-sum_t weights_t log p_t``, the cross-entropy of the given responses."""
    loss = -weighted_sum(log_probs, weights)
    return loss, {}


def value_objective(
    weights: Tensor, values: Tensor, old_values: Tensor, returns: Tensor, value_clip: float
) -> tuple[Tensor, Metrics]:
    """The critic's: `clipped_value_loss` summed with weights. Metrics: value_loss, value_clipfrac."""
    per_token, clipped = clipped_value_loss(values, old_values, returns, value_clip)
    loss = weighted_sum(per_token, weights)
    return loss, {"value_loss": loss.detach(), "value_clipfrac": weighted_sum(clipped, weights)}


def _check_inputs(
    options: PolicyOptions, tokens: PolicyTokens, entropy: Tensor | None, head_log_probs: Tensor | None
) -> None:
    if options.kl_loss_coef and tokens.ref_log_probs is None:
        raise ValueError(f"kl_loss_coef is {options.kl_loss_coef} but there are no reference log-probs.")
    if options.entropy_coef and entropy is None:
        raise ValueError(f"entropy_coef is {options.entropy_coef} but no entropy was given.")
    if options.score_centering and options.form != "reinforce":
        raise ValueError(f"score centering is derived for the reinforce loss; the form is {options.form}.")
    if options.score_centering and (head_log_probs is None or tokens.rollout_head_log_probs is None):
        raise ValueError("score centering needs the log-probs of the sampler's most likely tokens, from both sides.")
