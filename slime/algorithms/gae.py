"""Discounted sums toward the end of a sequence, and generalised advantage estimation on top of them.

Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", arXiv:1506.02438,
equations 11 to 16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slime.algorithms.sequences import padded

CHUNK = 128


def discounted_suffix_sums(values: Tensor, lengths: Tensor, decay: float, chunk: int = CHUNK) -> Tensor:
    """``s_t = x_t + decay * s_{t+1}`` inside each sequence, with nothing beyond its end.

    The recursion runs over chunks from the end, not over tokens: inside a chunk ``s = M x`` with the triangular matrix
    ``M[i, j] = decay^(j - i)``, and what comes after the chunk enters as ``decay^(c - i) s_next``. A response of 32,000
    tokens takes 250 small matrix products instead of 32,000 steps. A chunk of 1 is the recursion over tokens.

    Args:
        values: [T], the sequences one after another.
        lengths: [N] integers that add up to T.
        decay: in [0, 1].
        chunk: tokens that one matrix product handles, at least 1.

    Returns:
        [T], in the dtype of `values`.

    Raises:
        ValueError: `decay` lies outside [0, 1] or `chunk` is below 1.
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"the decay is {decay}; it must lie in [0, 1]. It is gamma, or gamma times lambda.")
    if chunk < 1:
        raise ValueError(f"the chunk is {chunk}; it must be at least 1.")
    rectangle, filled = padded(values, lengths)
    size = min(chunk, rectangle.shape[1])
    steps = torch.arange(size, device=values.device)
    # The exponent is kept at 0 below the diagonal, where decay = 0 would otherwise give an infinite power.
    distance = (steps[None, :] - steps[:, None]).clamp(min=0)
    inner = torch.triu(torch.as_tensor(decay, dtype=values.dtype, device=values.device) ** distance)
    sums = torch.zeros_like(rectangle)
    following = torch.zeros(len(lengths), 1, dtype=values.dtype, device=values.device)
    for begin in reversed(range(0, rectangle.shape[1], size)):
        part = rectangle[:, begin : begin + size]
        width = part.shape[1]
        reach = torch.as_tensor(decay, dtype=values.dtype, device=values.device) ** (width - steps[:width])
        sums[:, begin : begin + width] = part @ inner[:width, :width].T + following * reach
        following = sums[:, begin : begin + 1]
    return sums[filled]


def generalized_advantages(
    rewards: Tensor, values: Tensor, lengths: Tensor, gamma: float, lambd: float, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """Advantages ``A_t = sum_k (gamma lambda)^k delta_{t+k}`` and returns ``A_t + V_t``.

    ``delta_t = r_t + gamma V_{t+1} - V_t``; the value beyond the last token is 0, since the episode ends there.

    Args:
        rewards: [T] reward of each token.
        values: [T] the critic's estimates before its update; no gradient is kept.
        lengths: [N] integers that add up to T.
        gamma: discount, in [0, 1].
        lambd: in [0, 1]; 0 = one-step advantages (low variance), 1 = return minus value (no bias).
        chunk: see `discounted_suffix_sums`.

    Returns:
        advantages [T], returns [T].

    Raises:
        ValueError: gamma or lambda lies outside [0, 1].
    """
    for name, number in (("gamma", gamma), ("lambd", lambd)):
        if not 0 <= number <= 1:
            raise ValueError(f"{name} is {number}; it must lie in [0, 1].")
    values = values.detach()
    following = torch.cat([values[1:], values.new_zeros(1)])
    following[lengths.to(values.device).cumsum(0) - 1] = 0.0
    advantages = discounted_suffix_sums(rewards + gamma * following - values, lengths, gamma * lambd, chunk)
    return advantages, advantages + values
