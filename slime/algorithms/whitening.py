"""Advantages with mean 0 and deviation 1 over all trained tokens of a round, wherever they are.

Hu et al., "REINFORCE++", arXiv:2501.03262 (global advantage normalisation).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

VARIANCE_EPSILON = 1e-8

SumOverRanks = Callable[[Tensor], Tensor]
"""Adds a small float64 tensor over the ranks that share a round; the identity for one rank."""


def whiten(values: Tensor, mask: Tensor, sum_over_ranks: SumOverRanks = lambda part: part) -> Tensor:
    """``(x - mean) / sqrt(var + 1e-8)``, statistics over all tokens whose mask is not 0, on all ranks.

    The variance is that of the sample (divided by ``n - 1``) when there are at least two tokens. It is summed in
    float64 from differences to the mean: ``E[x^2] - E[x]^2`` loses all digits when the mean is large, and its result
    depends on how the tokens are spread over ranks.

    Args:
        values: [T] of this rank.
        mask: [T], 0 or 1.
        sum_over_ranks: see `SumOverRanks`; every rank calls it twice, also one without tokens.

    Returns:
        [T]; masked tokens are transformed, too, and may hold anything.

    Raises:
        ValueError: no rank has a token that trains.
    """
    trained = values.double()[mask != 0]
    sums = sum_over_ranks(torch.stack([trained.new_tensor(float(trained.numel())), trained.sum()]))
    count = float(sums[0])
    if count < 1:
        raise ValueError("no token of the round trains (all loss masks are 0), so advantages cannot be whitened.")
    mean = sums[1] / count
    squares = sum_over_ranks((trained - mean).square().sum().reshape(1))[0]
    variance = squares / max(count - 1, 1)
    return ((values.double() - mean) * torch.rsqrt(variance + VARIANCE_EPSILON)).to(values.dtype)
