"""The clipped policy loss, for each token.

Schulman et al., "Proximal Policy Optimization", arXiv:1707.06347, equation 7; a separate upper bound ("clip higher"):
Yu et al., "DAPO", arXiv:2503.14476, equation 10; the lower bound for negative advantages ("dual clip"):
Ye et al., arXiv:1912.09729, equation 5.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    eps_clip: float,
    eps_clip_high: float,
    eps_clip_c: float | None = None,
) -> tuple[Tensor, Tensor]:
    """``max(-rho A, -clip(rho, 1 - eps_clip, 1 + eps_clip_high) A)`` with ``rho = exp(log_probs - old_log_probs)``.

    Args:
        log_probs: [T] under the current policy; gradient flows through them.
        old_log_probs: [T] under the policy that the clip range is measured from.
        advantages: [T].
        eps_clip: lower clip distance, 0 <= eps_clip <= 1.
        eps_clip_high: upper clip distance, not negative.
        eps_clip_c: dual clip; for ``A < 0`` the loss is at most ``-eps_clip_c * A``. Above 1, or None for none.

    Returns:
        loss [T], and clipped [T]: 1.0 where the clipped term was the larger one.

    Raises:
        ValueError: for a clip range outside its limits.
    """
    if not 0 <= eps_clip <= 1:
        raise ValueError(f"eps_clip is {eps_clip}; it must lie in [0, 1], because the ratio is never negative.")
    if eps_clip_high < 0:
        raise ValueError(f"eps_clip_high is {eps_clip_high}; it must not be negative. The usual value is 0.2 to 0.28.")
    if eps_clip_c is not None and eps_clip_c <= 1:
        raise ValueError(f"eps_clip_c is {eps_clip_c}; it must be above 1, or it would clip on-policy tokens.")
    ratio = torch.exp(log_probs - old_log_probs)
    plain = -ratio * advantages
    limited = -ratio.clamp(1 - eps_clip, 1 + eps_clip_high) * advantages
    loss = torch.maximum(plain, limited)
    if eps_clip_c is not None:
        loss = torch.where(advantages < 0, torch.minimum(loss, -eps_clip_c * advantages), loss)
    return loss, (limited > plain).to(loss.dtype)
