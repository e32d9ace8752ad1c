"""Score centering (SC): subtract from each token's weighted score its mean under the sampler.

With ``q`` the sampler's and ``p`` the trainer's distribution at one position, ``f`` the correction of the ratio
``p / q``, the token drawn from q contributes ``A f(p/q) grad log p``. The mean over q of what stands beside A,
``mu = sum_v q_v f(p_v/q_v) grad log p_v``, is 0 when q = p, and is not when they differ: the mismatch then pushes the
policy in a direction that no reward asked for. SC adds ``A C`` to the loss, a function whose gradient is ``A mu``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slime.algorithms.corrections import Correction, limited

# Of a tail; a head that covers the vocabulary leaves rounding errors there, whose quotient would be anything.
TAIL_FLOOR = 1e-6


def centering_top_k(
    head_log_probs: Tensor, rollout_head_log_probs: Tensor, kind: Correction, low: float, high: float
) -> Tensor:
    """C from the sampler's k most likely tokens H, and a tail whose ratio p/q is taken to be one number.

    ``C = sum_{v in H} sg(q_v f(p_v / q_v) - alpha p_v) log p_v`` with ``alpha = rho f(1 / rho)`` and
    ``rho = (1 - Q) / (1 - P)``, the quotient of the tails' masses. The tail's own scores are not needed:
    ``sum_v p_v grad log p_v`` over the whole vocabulary is 0, so those of the tail are minus those of the head.
    Exact when H is the whole vocabulary, or when p and q are proportional on the tail.

    Args:
        head_log_probs: [T, k] log p of H under the current policy; gradient flows through them.
        rollout_head_log_probs: [T, k] log q of H, of the whole vocabulary's distribution.
        kind, low, high: the correction f, see `slime.algorithms.corrections.limited`.

    Returns:
        [T]; add ``sg(A) C`` to the loss of the token.
    """
    p, q = head_log_probs.detach().exp(), rollout_head_log_probs.exp()
    tails = torch.stack([1 - q.sum(-1), 1 - p.sum(-1)]).clamp(min=TAIL_FLOOR)
    quotient = tails[0] / tails[1]
    alpha = quotient * limited(1 / quotient, kind, low, high)
    # From the logarithms: where both probabilities underflow to 0, their quotient would not be a number.
    ratio = torch.exp(head_log_probs.detach() - rollout_head_log_probs)
    factor = q * limited(ratio, kind, low, high) - alpha[:, None] * p
    return (factor * head_log_probs).sum(-1)
