"""Sums and means over each sequence, for values that stand one after another: T tokens of N sequences in one row."""

from __future__ import annotations

import torch
from torch import Tensor


def spread(values: Tensor, lengths: Tensor) -> Tensor:
    """Give every token its sequence's value.

    Args:
        values: [N].
        lengths: [N] integers, tokens of each sequence.

    Returns:
        [T] with ``T = sum(lengths)``.
    """
    return torch.repeat_interleave(values, lengths)


def sequence_sums(values: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
    """``sum_t m_t x_t`` of each sequence. Masked tokens count nothing, even if their value is not finite.

    Args:
        values: [T]; gradient flows through them.
        mask: [T], 0 or 1.
        lengths: [N] integers that add up to T.

    Returns:
        [N].
    """
    owner = spread(torch.arange(len(lengths), device=values.device), lengths.to(values.device))
    counted = torch.where(mask != 0, values, torch.zeros_like(values))
    return torch.zeros(len(lengths), dtype=values.dtype, device=values.device).index_add(0, owner, counted)


def sequence_means(values: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
    """``sum_t m_t x_t / max(sum_t m_t, 1)`` of each sequence; 0 where all is masked. See `sequence_sums`."""
    return sequence_sums(values, mask, lengths) / sequence_sums(mask.to(values.dtype), mask, lengths).clamp(min=1)


def padded(values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """[T] as a rectangle [N, longest] filled up with zeros, and the bool rectangle that is True on tokens."""
    filled = torch.arange(int(lengths.max()), device=values.device) < lengths.to(values.device)[:, None]
    rectangle = torch.zeros(filled.shape, dtype=values.dtype, device=values.device)
    return rectangle.masked_scatter(filled, values), filled


def last_tokens(lengths: Tensor, mask: Tensor | None = None) -> Tensor:
    """Position in the row of each sequence's last token, [N] int64.

    Args:
        lengths: [N] integers, at least 1.
        mask: [T]; given, the last token whose mask is not 0.

    Raises:
        ValueError: a sequence has no token whose mask is not 0.
    """
    ends = lengths.cumsum(0) - 1
    if mask is None:
        return ends
    rectangle, filled = padded(mask, lengths)
    trained = (rectangle != 0) & filled
    empty = ~trained.any(dim=1)
    if bool(empty.any()):
        raise ValueError(f"sequence {int(empty.nonzero()[0])} is masked entirely; it has no token to carry its reward.")
    columns = torch.arange(trained.shape[1], device=mask.device).expand_as(trained)
    return ends - (lengths - 1) + torch.where(trained, columns, -1).max(dim=1).values.to(ends.device)
