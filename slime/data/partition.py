"""Splitting numbers into parts of nearly equal sums.

The largest differencing method: Karmarkar and Karp, "The Differencing Method of Set Partitioning", UC Berkeley report
UCB/CSD 82/113, 1982. The variant with equal counts starts from tuples of neighbours in size instead of single numbers:
Michiels, Korst, Aarts and van Leeuwen, "Performance Ratios for the Differencing Method Applied to the Balanced Number
Partitioning Problem", STACS 2003.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Any

# A part is (sum, members); members are a position, None, or a pair of members, which costs nothing to join.
_Part = tuple[float, Any]


def karmarkar_karp(costs: Sequence[float], parts: int, equal_count: bool = False) -> list[list[int]]:
    """Positions of `costs` in `parts` lists with nearly equal sums.

    Args:
        costs: at least 0 each.
        parts: at least 1.
        equal_count: lists also differ by at most one in length.

    Returns:
        `parts` lists, the one with the largest sum first; positions rise inside each. Without `equal_count`, or with
        fewer numbers than parts, some may be empty. The same input gives the same lists.

    Raises:
        ValueError: `parts` is below 1.
    """
    if parts < 1:
        raise ValueError(f"{parts} parts; there must be at least 1.")
    falling = sorted(range(len(costs)), key=lambda position: (-costs[position], position))
    width = parts if equal_count else 1
    serial = count()
    states: list[tuple[float, int, list[_Part]]] = []
    for begin in range(0, len(falling), width):
        state: list[_Part] = [(costs[position], position) for position in falling[begin : begin + width]]
        state += [(0, None)] * (parts - len(state))
        states.append((state[-1][0] - state[0][0], next(serial), state))
    heapq.heapify(states)
    while len(states) > 1:
        # The two states whose parts differ most; the largest part of one joins the smallest of the other.
        first, second = heapq.heappop(states)[2], heapq.heappop(states)[2]
        joined = [
            (large[0] + small[0], (large[1], small[1])) for large, small in zip(first, reversed(second), strict=True)
        ]
        joined.sort(key=lambda part: -part[0])
        heapq.heappush(states, (joined[-1][0] - joined[0][0], next(serial), joined))
    return [_members(part[1]) for part in states[0][2]] if states else [[] for _ in range(parts)]


def halve(members: Sequence[int], costs: Sequence[float]) -> tuple[list[int], list[int]]:
    """Two non-empty halves of at least two members: each in turn, largest first, joins the lighter half."""
    halves: tuple[list[int], list[int]] = ([], [])
    loads = [0.0, 0.0]
    for position in sorted(members, key=lambda i: (-costs[i], i)):
        side = 0 if loads[0] <= loads[1] and (halves[1] or not halves[0]) else 1
        halves[side].append(position)
        loads[side] += costs[position]
    return halves


def _members(tree: Any) -> list[int]:
    found: list[int] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(node)
        elif node is not None:
            found.append(node)
    return sorted(found)
