"""Losses of policy and critic, for each token. Averaging is `slime.algorithms.reduction`'s."""

from __future__ import annotations

import torch
from torch import Tensor

from slime.algorithms.sequences import sequence_means, spread


def clipped_policy_loss(
    log_ratio: Tensor,
    advantages: Tensor,
    eps_clip: float,
    eps_clip_high: float,
    eps_clip_c: float | None = None,
) -> tuple[Tensor, Tensor]:
    """``max(-rho A, -clip(rho, 1 - eps_clip, 1 + eps_clip_high) A)`` with ``rho = exp(log_ratio)``.

    Schulman et al., "Proximal Policy Optimization", arXiv:1707.06347, equation 7; a separate upper bound ("clip
    higher"): Yu et al., "DAPO", arXiv:2503.14476, equation 10; the lower bound for negative advantages ("dual clip"):
    Ye et al., arXiv:1912.09729, equation 5.

    Args:
        log_ratio: [T] current minus old log-probability of each token, or of its sequence (`sequence_log_ratio`);
            gradient flows through it.
        advantages: [T].
        eps_clip: lower clip distance, 0 <= eps_clip <= 1.
        eps_clip_high: upper clip distance, not negative.
        eps_clip_c: dual clip; for ``A < 0`` the loss is at most ``-eps_clip_c * A``. Above 1, or None for none.

    Returns:
        loss [T], and clipped [T]: 1.0 where the clipped term was the larger one.

    Raises:
        ValueError: for a clip range outside its limits.
    """
    _check_clip(eps_clip, eps_clip_high)
    if eps_clip_c is not None and eps_clip_c <= 1:
        raise ValueError(f"eps_clip_c is {eps_clip_c}; it must be above 1, or it would clip on-policy tokens.")
    ratio = torch.exp(log_ratio)
    plain = -ratio * advantages
    limited = -ratio.clamp(1 - eps_clip, 1 + eps_clip_high) * advantages
    loss = torch.maximum(plain, limited)
    if eps_clip_c is not None:
        loss = torch.where(advantages < 0, torch.minimum(loss, -eps_clip_c * advantages), loss)
    return loss, (limited > plain).to(loss.dtype)


def sequence_log_ratio(log_ratio: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
    """GSPO's ratio: each token gets the mean log-ratio of its sequence, ``sum_t m_t d_t / max(sum_t m_t, 1)``.

    Its exponential is the geometric mean of the tokens' ratios. Zheng et al., "Group Sequence Policy Optimization",
    arXiv:2507.18071, equation 7. The gradient of one token's loss reaches every token of the sequence.

    Args:
        log_ratio: [T] current minus old log-probability.
        mask: [T], 0 or 1.
        lengths: [N] integers that add up to T.
    """
    return spread(sequence_means(log_ratio, mask, lengths), lengths)


def cispo_loss(
    log_probs: Tensor, log_ratio: Tensor, advantages: Tensor, eps_clip: float, eps_clip_high: float
) -> tuple[Tensor, Tensor]:
    """``-sg(clip(rho, 1 - eps_clip, 1 + eps_clip_high)) A log_prob``: the weight is clipped, no token loses gradient.

    MiniMax, "MiniMax-M1", arXiv:2506.13585, equations 4 and 5. Usual values: eps_clip 1 (no lower limit), eps_clip_high
    up to 5.

    Args, returns, raises: as in `clipped_policy_loss`; clipped is 1.0 where the limits changed the ratio.
    """
    _check_clip(eps_clip, eps_clip_high)
    ratio = torch.exp(log_ratio.detach())
    limited = ratio.clamp(1 - eps_clip, 1 + eps_clip_high)
    return -limited * advantages * log_probs, (limited != ratio).to(log_probs.dtype)


def reinforce_loss(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """``-sg(A) log_prob`` [T]: Williams, "Simple statistical gradient-following algorithms", 1992."""
    return -advantages.detach() * log_probs


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, value_clip: float) -> tuple[Tensor, Tensor]:
    """``max((V - R)^2, (V_c - R)^2)`` with ``V_c = V_old + clip(V - V_old, -value_clip, value_clip)``; no factor 1/2.

    The critic's counterpart of the clipped policy loss, from the reference implementation of arXiv:1707.06347.

    Args:
        values: [T] of the current critic; gradient flows through them.
        old_values: [T] of the critic before the round.
        returns: [T] what the values should be.
        value_clip: not negative.

    Returns:
        loss [T], and clipped [T]: 1.0 where the value moved farther than `value_clip`.

    Raises:
        ValueError: `value_clip` is negative.
    """
    if value_clip < 0:
        raise ValueError(f"value_clip is {value_clip}; it must not be negative. The usual value is 0.2.")
    moved = values - old_values
    limited = old_values + moved.clamp(-value_clip, value_clip)
    loss = torch.maximum((values - returns).square(), (limited - returns).square())
    return loss, (moved.abs() > value_clip).to(loss.dtype)


def off_policy_sequences(log_ratio: Tensor, advantages: Tensor, mask: Tensor, lengths: Tensor, delta: float) -> Tensor:
    """Off-policy sequence masking (OPSM): 0.0 for the tokens that it takes out of the loss, else 1.0; [T], detached.

    A token goes when its advantage is negative and its sequence has moved far from the policy that sampled it:
    ``sum_t m_t (old - current) / max(sum_t m_t, 1) > delta``. DeepSeek-V3.2, arXiv:2512.02556, "Off-Policy Sequence
    Masking": mistakes of a policy long gone teach nothing and upset the optimisation, good answers stay.

    Args:
        log_ratio: [T] current minus old log-probability.
        advantages, mask: [T].
        lengths: [N] integers that add up to T.
        delta: --opsm-delta, not negative.
    """
    divergence = spread(sequence_means(-log_ratio.detach(), mask, lengths), lengths)
    return 1.0 - ((advantages < 0) & (divergence > delta)).to(log_ratio.dtype)


def _check_clip(eps_clip: float, eps_clip_high: float) -> None:
    if not 0 <= eps_clip <= 1:
        raise ValueError(f"eps_clip is {eps_clip}; it must lie in [0, 1], because the ratio is never negative.")
    if eps_clip_high < 0:
        raise ValueError(f"eps_clip_high is {eps_clip_high}; it must not be negative. The usual value is 0.2 to 0.28.")
