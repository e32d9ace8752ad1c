"""Context parallelism of packed sequences: which tokens a rank has, and how ranks see each other's.

Zigzag: each sequence, padded to a multiple of twice the number of ranks, is cut into that many chunks; rank r has chunk
r and the r-th from the end, so that all ranks have the same share of a causal score matrix.

Contiguous (--allgather-cp): the whole row is cut once, and rank r has the r-th part of it. Sequences need no padding of
their own and stay in few pieces. Ranks have the same work where a query looks at a fixed number of keys, as in sparse
attention; in full attention the last rank has most of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Run:
    """Successive tokens of one sequence, on one rank.

    Attributes:
        begin, length: the whole sequence's first row in the stream, and its tokens.
        first, count: position in the sequence at which the run begins, and its tokens.
    """

    begin: int
    length: int
    first: int
    count: int

    @property
    def whole(self) -> slice:
        """Rows of the whole sequence in the stream."""
        return slice(self.begin, self.begin + self.length)

    @property
    def past(self) -> slice:
        """Rows of the stream that the last token of the run may look at."""
        return slice(self.begin, self.begin + self.first + self.count)

    def positions(self, device: torch.device) -> Tensor:
        """int64 [count]: of its tokens in the sequence."""
        return torch.arange(self.first, self.first + self.count, device=device)


@dataclass(frozen=True)
class Stream:
    """Sequences behind each other, and how context-parallel ranks share their tokens.

    Attributes:
        lengths: of the sequences, padding included.
        contiguous: the second of the two ways above.
    """

    lengths: tuple[int, ...]
    contiguous: bool = False

    def runs(self, rank: int, size: int) -> list[Run]:
        """What `rank` of `size` has, in its order."""
        found, begin = [], 0
        for length in self.lengths:
            found += [
                Run(begin, length, first, last - first) for first, last in self._pieces(begin, length, rank, size)
            ]
            begin += length
        return found

    def rows(self, rank: int, size: int) -> Tensor:
        """int64: the same as rows of the stream."""
        return torch.cat([torch.arange(run.begin + run.first, run.past.stop) for run in self.runs(rank, size)])

    def _pieces(self, begin: int, length: int, rank: int, size: int) -> Iterator[tuple[int, int]]:
        if size == 1:
            yield 0, length
        elif self.contiguous:
            part = sum(self.lengths) // size
            first, last = max(rank * part - begin, 0), min((rank + 1) * part - begin, length)
            if first < last:
                yield first, last
        else:
            width = length // (2 * size)
            for chunk in (rank, 2 * size - 1 - rank):
                yield chunk * width, (chunk + 1) * width


class _Gather(torch.autograd.Function):
    """The whole packed stream from every rank's part. The gradient of a part adds up over the ranks that used it."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, stream: Stream, group: Any) -> Tensor:
        """[T, ...] from this rank's [T / size, ...]."""
        size = dist.get_world_size(group)
        parts = [torch.empty_like(part) for _ in range(size)]
        dist.all_gather(parts, part.contiguous(), group=group)
        rows = [stream.rows(rank, size).to(part.device) for rank in range(size)]
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


def gather_rows(part: Tensor, stream: Stream, group: Any) -> Tensor:
    """[T, ...] in the order of the stream from this rank's [T / size, ...]."""
    if dist.get_world_size(group) == 1:
        return part
    whole: Tensor = _Gather.apply(part, stream, group)
    return whole


def own_rows(whole: Tensor, stream: Stream, group: Any) -> Tensor:
    """This rank's part of [T, ...]; inverse of `gather_rows`."""
    size = dist.get_world_size(group)
    if size == 1:
        return whole
    return whole[stream.rows(dist.get_rank(group), size).to(whole.device)]


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
