"""The differencing method against every partition there is, and the properties that schedules rely on."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.data.partition import halve, karmarkar_karp

CASES = settings(max_examples=150, deadline=None, derandomize=True)


def best_makespan(costs: list[int], parts: int, equal_count: bool) -> int:
    """The smallest possible largest sum, by trying every assignment."""
    best = sum(costs)
    low, high = len(costs) // parts, -(-len(costs) // parts)
    for assignment in itertools.product(range(parts), repeat=len(costs)):
        if equal_count and not all(low <= assignment.count(part) <= high for part in range(parts)):
            continue
        sums = [0] * parts
        for cost, part in zip(costs, assignment, strict=True):
            sums[part] += cost
        best = min(best, max(sums))
    return best


@CASES
@given(st.lists(st.integers(1, 40), min_size=1, max_size=7), st.integers(1, 3))
def test_close_to_the_best_of_all_partitions(costs: list[int], parts: int) -> None:
    found = max(sum(costs[i] for i in part) for part in karmarkar_karp(costs, parts))
    # Worst case of the method: 4/3 - 1/(3m) of the optimum for m parts, 7/6 for two.
    bound = 7 / 6 if parts == 2 else 4 / 3 - 1 / (3 * parts)
    assert found <= best_makespan(costs, parts, equal_count=False) * bound + 1e-9


@CASES
@given(st.lists(st.integers(1, 40), min_size=1, max_size=7), st.integers(1, 3))
def test_equal_counts_stay_below_twice_the_best(costs: list[int], parts: int) -> None:
    found = karmarkar_karp(costs, parts, equal_count=True)
    sizes = [len(part) for part in found]
    assert max(sizes) - min(sizes) <= 1
    largest = max(sum(costs[i] for i in part) for part in found)
    assert largest <= 2 * best_makespan(costs, parts, equal_count=True)


@CASES
@given(st.lists(st.integers(0, 10_000), max_size=80), st.integers(1, 12), st.booleans())
def test_every_position_is_in_one_part(costs: list[int], parts: int, equal_count: bool) -> None:
    found = karmarkar_karp(costs, parts, equal_count)
    assert len(found) == parts
    assert sorted(itertools.chain(*found)) == list(range(len(costs)))
    sums = [sum(costs[i] for i in part) for part in found]
    assert sums == sorted(sums, reverse=True)
    assert found == karmarkar_karp(costs, parts, equal_count)


def test_the_textbook_example() -> None:
    """Karmarkar and Karp split 8, 7, 6, 5, 4 into 16 and 14 (the optimum is 15 and 15)."""
    assert [sum([8, 7, 6, 5, 4][i] for i in part) for part in karmarkar_karp([8, 7, 6, 5, 4], 2)] == [16, 14]


def test_many_numbers_come_out_almost_equal() -> None:
    costs = [(7919 * i) % 1000 + 1 for i in range(512)]
    sums = [sum(costs[i] for i in part) for part in karmarkar_karp(costs, 16, equal_count=True)]
    assert max(sums) - min(sums) <= 2


def test_no_parts() -> None:
    with pytest.raises(ValueError, match="0 parts"):
        karmarkar_karp([1], 0)


@CASES
@given(st.lists(st.integers(0, 50), min_size=2, max_size=20))
def test_halves_are_whole_and_not_empty(costs: list[int]) -> None:
    members = list(range(len(costs)))
    first, second = halve(members, costs)
    assert first
    assert second
    assert sorted(first + second) == members
    assert abs(sum(costs[i] for i in first) - sum(costs[i] for i in second)) <= max(costs)
