"""Estimators of KL(policy || base) from the log-probabilities of tokens that the policy sampled.

Schulman, "Approximating KL Divergence", 2020: k1 is unbiased with high variance, k2 biased with low variance, k3
unbiased and never negative.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

KLEstimator = Literal["k1", "k2", "k3", "low_var_kl"]

# low_var_kl is k3 with its value limited, so that one token with a tiny base probability cannot rule a batch.
LOW_VAR_LIMIT = 10.0


def kl_estimate(
    log_probs: Tensor, base_log_probs: Tensor, kind: KLEstimator, sampled_log_probs: Tensor | None = None
) -> Tensor:
    """KL estimate for each token, with ``r = log_probs - base_log_probs``.

    ``k1 = r``; ``k2 = r^2 / 2``; ``k3 = exp(-r) - 1 + r``; ``low_var_kl`` = k3 limited to [-10, 10].

    The tokens come from the policy before the round's first step. With `sampled_log_probs` of that policy, the estimate
    is multiplied by ``exp(log_probs - sampled_log_probs)`` (before the limit), which makes it one under the current
    policy (DeepSeek-V3.2, arXiv:2512.02556, "Unbiased KL Estimate"). The factor carries gradient: the gradient of the
    weighted k3 is an unbiased estimate of the gradient of the KL divergence.

    Args:
        log_probs: [...] log-probabilities under the policy; gradient flows through them.
        base_log_probs: [...] the same tokens under the base (reference) policy.
        kind: name of the estimator.
        sampled_log_probs: [...] under the policy that sampled, or None for no correction (--use-unbiased-kl).

    Returns:
        [...] same shape.

    Raises:
        ValueError: for an unknown estimator.
    """
    if kind not in get_args(KLEstimator):
        raise ValueError(f"unknown KL estimator {kind!r}; choose one of: {', '.join(get_args(KLEstimator))}.")
    ratio = log_probs - base_log_probs
    if kind == "k1":
        value = ratio
    elif kind == "k2":
        value = ratio.square() / 2
    else:
        # expm1 keeps the digits that exp(-r) - 1 loses for small r, the usual case.
        value = torch.expm1(-ratio) + ratio
    if sampled_log_probs is not None:
        value = value * torch.exp(log_probs - sampled_log_probs)
    return value.clamp(-LOW_VAR_LIMIT, LOW_VAR_LIMIT) if kind == "low_var_kl" else value
