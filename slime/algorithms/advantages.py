"""Advantages of tokens from advantages of sequences; those of sequences come from `slime.algorithms.groups`."""

from __future__ import annotations

import torch
from torch import Tensor


def spread(advantages: Tensor, lengths: Tensor) -> Tensor:
    """Give every response token its sequence's advantage (GRPO: ``A_t = A`` for all t).

    Args:
        advantages: [N] one scalar a sequence.
        lengths: [N] integers, response tokens of each sequence.

    Returns:
        [sum(lengths)], the responses one after another.
    """
    return torch.repeat_interleave(advantages, lengths)
