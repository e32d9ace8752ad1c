"""Context parallelism of packed sequences: which tokens a rank has, and how ranks see each other's.

Each sequence, padded to a multiple of twice the number of ranks, is cut into that many chunks; rank r has chunk r and
the r-th from the end ("zigzag"), so that all ranks have the same share of a causal score matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def zigzag(length: int, rank: int, size: int) -> Tensor:
    """int64 [length / size]: positions of one sequence that `rank` of `size` has, in its order."""
    if size == 1:
        return torch.arange(length)
    chunks = torch.arange(length).chunk(2 * size)
    return torch.cat([chunks[rank], chunks[2 * size - 1 - rank]])


def local_rows(lengths: Sequence[int], rank: int, size: int) -> Tensor:
    """int64: rows of the whole packed stream that `rank` has, in its order."""
    parts, start = [], 0
    for length in lengths:
        parts.append(start + zigzag(length, rank, size))
        start += length
    return torch.cat(parts)


class _Gather(torch.autograd.Function):
    """The whole packed stream from every rank's part. The gradient of a part adds up over the ranks that used it."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, lengths: Sequence[int], group: Any) -> Tensor:
        """[T, ...] from this rank's [T / size, ...]."""
        size = dist.get_world_size(group)
        parts = [torch.empty_like(part) for _ in range(size)]
        dist.all_gather(parts, part.contiguous(), group=group)
        rows = [local_rows(lengths, rank, size).to(part.device) for rank in range(size)]
        ctx.group, ctx.rows = group, rows[dist.get_rank(group)]
        whole = torch.empty(size * len(part), *part.shape[1:], dtype=part.dtype, device=part.device)
        for own, values in zip(rows, parts, strict=True):
            whole[own] = values
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """This rank's rows of the sum over ranks."""
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total[ctx.rows], None, None


def gather_rows(part: Tensor, lengths: Sequence[int], group: Any) -> Tensor:
    """[T, ...] in the order of the stream from this rank's [T / size, ...].

    Args:
        lengths: of the whole sequences.
    """
    if dist.get_world_size(group) == 1:
        return part
    whole: Tensor = _Gather.apply(part, lengths, group)
    return whole


def own_rows(whole: Tensor, lengths: Sequence[int], group: Any) -> Tensor:
    """This rank's part of [T, ...]; inverse of `gather_rows`."""
    size = dist.get_world_size(group)
    if size == 1:
        return whole
    return whole[local_rows(lengths, dist.get_rank(group), size).to(whole.device)]


class _Sum(torch.autograd.Function):
    """Sum over ranks of which each holds other summands; the gradient of a summand is that of the sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:
        total = values.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def join_values(values: Tensor, places: Tensor, count: int, group: Any) -> Tensor:
    """[count, ...] on every rank: each rank knows `values` at `places`, and together they know all.

    Every rank then computes the same loss from it, and the gradients of its own values are complete.
    """
    if dist.get_world_size(group) == 1:
        return values
    joined: Tensor = _Sum.apply(values.new_zeros(count, *values.shape[1:]).index_put((places,), values), group)
    return joined
