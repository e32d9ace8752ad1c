"""Filling micro-batches: by number of sequences, by tokens, by work. Members are positions in the lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slime.data.partition import halve

Bins = list[list[int]]


def fill_by_count(members: Sequence[int], size: int) -> Bins:
    """Runs of `size` members in their order; the last may be shorter."""
    return [list(members[begin : begin + size]) for begin in range(0, len(members), size)]


def fill_by_tokens(members: Sequence[int], lengths: Sequence[int], budget: int) -> Bins:
    """First fit, longest first: at most ``11/9 OPT + 6/9`` micro-batches (Dosa, 2007), each of at most `budget` tokens.

    A member that is longer than the budget is alone in its micro-batch.
    """
    bins: Bins = []
    loads: list[int] = []
    for position in sorted(members, key=lambda i: (-lengths[i], i)):
        fit = next((i for i, load in enumerate(loads) if load + lengths[position] <= budget), None)
        if fit is None:
            bins.append([position])
            loads.append(lengths[position])
        else:
            bins[fit].append(position)
            loads[fit] += lengths[position]
    return bins


def fill_by_cost(members: Sequence[int], lengths: Sequence[int], costs: Sequence[int], budget: int) -> Bins:
    """Micro-batches of similar cost that keep the budget of tokens, as few as that allows.

    Dearest first into the cheapest micro-batch that has room (Graham's rule with a capacity). Equal cost puts short
    sequences together, so some more micro-batches than `fill_by_tokens` makes may be needed; never more than twice the
    tokens over the budget, plus one.
    """
    large = [position for position in members if lengths[position] > budget]
    others = sorted((i for i in members if lengths[i] <= budget), key=lambda i: (-costs[i], i))
    by_tokens = fill_by_tokens(others, lengths, budget)
    count, most = len(by_tokens), 2 * sum(lengths[position] for position in others) // budget + 1
    while others and count <= most:
        bins = _cheapest_with_room(others, lengths, costs, budget, count)
        if bins is not None:
            return [[position] for position in large] + [members for members in bins if members]
        count += max(1, count // 32)
    return [[position] for position in large] + by_tokens


def _cheapest_with_room(
    order: Sequence[int], lengths: Sequence[int], costs: Sequence[int], budget: int, count: int
) -> Bins | None:
    bins: Bins = [[] for _ in range(count)]
    tokens, work = np.zeros(count, np.int64), np.zeros(count, np.float64)
    for position in order:
        cheapest = int(np.where(tokens + lengths[position] <= budget, work, np.inf).argmin())
        if tokens[cheapest] + lengths[position] > budget:
            return None
        bins[cheapest].append(position)
        tokens[cheapest] += lengths[position]
        work[cheapest] += costs[position]
    return bins


def split_until(bins: Bins, target: int, costs: Sequence[int]) -> None:
    """Halve the dearest micro-batch that can be divided until there are `target`; empty ones when none can."""
    while len(bins) < target:
        divisible = [at for at, members in enumerate(bins) if len(members) > 1]
        if not divisible:
            bins.append([])
            continue
        dearest = max(divisible, key=lambda at: sum(costs[position] for position in bins[at]))
        bins[dearest], other = halve(bins[dearest], costs)
        bins.append(other)
