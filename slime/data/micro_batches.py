"""Filling micro-batches: by number of sequences, by tokens, by work. Members are positions in the lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from slime.data.partition import halve, karmarkar_karp

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
    """As few micro-batches of nearly equal cost as keep the budget of tokens; never more than `fill_by_tokens` makes.

    Equal cost may put too many short sequences together. Then there is one more micro-batch, and so on.
    """
    by_tokens = fill_by_tokens(members, lengths, budget)
    least = -(-sum(lengths[position] for position in members) // budget)
    own = [costs[position] for position in members]
    for count in range(min(least, len(by_tokens)), len(by_tokens) + 1):
        parts = [[members[at] for at in part] for part in karmarkar_karp(own, count)]
        if all(len(part) == 1 or sum(lengths[i] for i in part) <= budget for part in parts):
            return [part for part in parts if part]
    return by_tokens


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
