"""Advantages and returns of tokens. Scalars of sequences, normalised or not, come from `slime.algorithms.groups`."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from slime.algorithms.gae import discounted_suffix_sums, generalized_advantages
from slime.algorithms.sequences import last_tokens, spread

Estimator = Literal["grpo", "gspo", "cispo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo"]


def reinforce_plus_plus(
    rewards: Tensor, lengths: Tensor, mask: Tensor, kl: Tensor | None, kl_coef: float, gamma: float
) -> Tensor:
    """REINFORCE++: the discounted return of each token, its KL penalties included.

    ``r_t = -kl_coef KL_t m_t``, the last trained token also gets R, and ``A_t = sum_{k >= t} gamma^(k-t) r_k``.
    Hu et al., arXiv:2501.03262 (REINFORCE++, the k1 penalty in the return); its advantages are whitened afterwards.

    Args:
        rewards: [N] R of each sequence, not normalised inside its group.
        lengths: [N] integers that add up to T.
        mask: [T], 0 or 1.
        kl: [T] estimates of KL(old policy || reference), or None when `kl_coef` is 0.
        kl_coef: at least 0.
        gamma: discount, in [0, 1].

    Returns:
        [T]; the return is the advantage.

    Raises:
        ValueError: a sequence is masked entirely, or gamma lies outside [0, 1].
    """
    token_rewards = kl_penalty(mask, kl, kl_coef, rewards.dtype)
    token_rewards[last_tokens(lengths, mask)] += rewards
    return discounted_suffix_sums(token_rewards, lengths, gamma)


def reinforce_plus_plus_baseline(
    rewards: Tensor, lengths: Tensor, mask: Tensor, kl: Tensor | None, kl_coef: float
) -> Tensor:
    """REINFORCE++ with the group's mean as baseline: ``A_t = R - kl_coef KL_t m_t`` with R centred in its group.

    Hu et al., arXiv:2501.03262 (REINFORCE++ with baseline); its advantages are whitened afterwards.

    Args, returns: as in `reinforce_plus_plus`; a sequence may be masked entirely.
    """
    return spread(rewards, lengths) + kl_penalty(mask, kl, kl_coef, rewards.dtype)


def ppo(
    rewards: Tensor,
    lengths: Tensor,
    mask: Tensor,
    values: Tensor,
    kl: Tensor | None,
    kl_coef: float,
    gamma: float,
    lambd: float,
) -> tuple[Tensor, Tensor]:
    """PPO with a critic: GAE over token rewards ``r_t = -kl_coef KL_t m_t``, the last token also gets R.

    KL penalty in the reward: Ouyang et al., arXiv:2203.02155, equation 2. GAE: see `generalized_advantages`.

    Args:
        values: [T] the critic's estimates.
        lambd: of GAE, in [0, 1].
        Others as in `reinforce_plus_plus`.

    Returns:
        advantages [T], returns [T]: what the critic learns.
    """
    token_rewards = kl_penalty(mask, kl, kl_coef, rewards.dtype)
    token_rewards[last_tokens(lengths)] += rewards
    return generalized_advantages(token_rewards, values, lengths, gamma, lambd)


def distilled(advantages: Tensor, log_probs: Tensor, teacher_log_probs: Tensor, coefficient: float) -> Tensor:
    """On-policy distillation: ``A_t - coefficient (log p_old - log p_teacher)``.

    The student's own tokens are scored by the teacher; the per-token estimate of the reverse KL is taken from the
    advantage, with no credit for later tokens. Agarwal et al., "On-Policy Distillation of Language Models",
    arXiv:2306.13649 (student's own samples, reverse KL); as a policy gradient: Gu et al., "MiniLLM", arXiv:2306.08543.

    Args:
        advantages: [T] of the estimator, 0 for distillation alone.
        log_probs: [T] of the policy that sampled; no gradient is kept.
        teacher_log_probs: [T] of the same tokens.
        coefficient: --opd-kl-coef, at least 0.
    """
    return advantages - coefficient * (log_probs.detach() - teacher_log_probs)


def kl_penalty(mask: Tensor, kl: Tensor | None, kl_coef: float, dtype: torch.dtype) -> Tensor:
    """``-kl_coef KL_t m_t`` [T]. A masked token (a tool's output, say) was not the policy's choice: no penalty.

    Raises:
        ValueError: a coefficient without KL estimates.
    """
    if not kl_coef:
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    if kl is None:
        raise ValueError(f"kl_coef is {kl_coef} but there are no log-probs of a reference policy.")
    return torch.where(mask != 0, -kl_coef * kl, torch.zeros_like(kl)).to(dtype)
