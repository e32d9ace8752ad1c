"""Properties that every schedule has, on random inputs and on the corners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.data.flops import SequenceCost
from slime.data.schedule import ScheduleError, ScheduleOptions, oversize, plan_log_probs, plan_steps


@st.composite
def inputs(draw: Any) -> tuple[list[int], list[int], ScheduleOptions]:
    count = draw(st.integers(1, 60))
    lengths = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    rollouts = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
    budget = draw(st.none() | st.integers(10, 100))
    options = ScheduleOptions(
        dp_size=draw(st.integers(1, 4)),
        global_batch_size=draw(st.integers(1, 20)),
        max_tokens_per_gpu=budget,
        context_parallel_size=draw(st.integers(1, 2)),
        micro_batch_size=draw(st.integers(1, 5)),
        log_probs_max_tokens_per_gpu=draw(st.none() | st.integers(10, 200)),
        balance_data=draw(st.booleans()),
        balance_by_flops=budget is not None and draw(st.booleans()),
        cost=SequenceCost(draw(st.integers(1, 50)), draw(st.integers(0, 3))),
    )
    return lengths, rollouts, options


@settings(max_examples=400, deadline=None, derandomize=True)
@given(inputs())
def test_every_schedule_is_whole_equal_and_within_budget(case: tuple[list[int], list[int], ScheduleOptions]) -> None:
    lengths, rollouts, options = case
    try:
        plans = plan_steps(lengths, rollouts, options)
    except ScheduleError:
        assert options.dp_size > 1
        return
    flat = [i for plan in plans for rank in plan.ranks for bins in rank for i in bins]
    assert sorted(flat) == list(range(len(lengths)))
    seen: set[int] = set()
    for plan in plans:
        assert len({len(rank) for rank in plan.ranks}) == 1
        step_rollouts = {rollouts[i] for rank in plan.ranks for bins in rank for i in bins}
        assert not step_rollouts & seen
        seen |= step_rollouts
        assert all(any(rank) for rank in plan.ranks)
        for bins in (bins for rank in plan.ranks for bins in rank):
            if options.budget is None:
                assert len(bins) <= options.micro_batch_size
            else:
                assert len(bins) <= 1 or sum(lengths[i] for i in bins) <= options.budget
    large = [i for i in range(len(lengths)) if options.budget is not None and lengths[i] > options.budget]
    assert oversize(lengths, options) == large


@settings(max_examples=200, deadline=None, derandomize=True)
@given(inputs())
def test_micro_batches_are_fewer_than_twice_the_least(case: tuple[list[int], list[int], ScheduleOptions]) -> None:
    lengths, _, options = case
    if options.budget is None or len(lengths) < options.dp_size:
        return
    (plan,) = plan_steps(lengths, [0] * len(lengths), options)
    longest = max(*lengths, options.budget)
    # No two micro-batches of first fit fit into one, so they are fewer than twice the tokens over the budget, plus one;
    # then the number is raised to a multiple of the ranks.
    most = -(-(2 * sum(lengths) // min(options.budget, longest) + 1) // options.dp_size)
    assert len(plan.ranks[0]) <= most


@settings(max_examples=200, deadline=None, derandomize=True)
@given(inputs())
def test_passes_for_log_probs_are_whole_equal_and_within_their_budget(
    case: tuple[list[int], list[int], ScheduleOptions],
) -> None:
    lengths, _, options = case
    ranks = [lengths[rank :: options.dp_size] for rank in range(options.dp_size)]
    if not all(ranks):
        return
    plan = plan_log_probs(ranks, options)
    assert len({len(bins) for bins in plan}) == 1
    limit = options.log_probs_max_tokens_per_gpu or options.max_tokens_per_gpu
    for own, bins in zip(ranks, plan, strict=True):
        assert {i for members in bins for i in members} == set(range(len(own)))
        assert all(bins)
        for members in bins:
            if limit is not None and len(members) > 1:
                assert sum(own[i] for i in members) <= limit * options.context_parallel_size


def test_balanced_ranks_do_equal_work() -> None:
    """Long sequences cost more than their tokens: a rank with one of them gets fewer others."""
    lengths = [(7919 * i) % 900 + 100 for i in range(256)] + [8000, 4000]
    cost = SequenceCost(100, 1)
    options = ScheduleOptions(4, 258, max_tokens_per_gpu=8192, balance_data=True, balance_by_flops=True, cost=cost)

    def spread(chosen: ScheduleOptions) -> float:
        (plan,) = plan_steps(lengths, list(range(258)), chosen)
        work = [sum(cost.of(lengths[i]) for bins in rank for i in bins) for rank in plan.ranks]
        return max(work) / (sum(work) / len(work))

    in_turn = spread(replace(options, balance_data=False, balance_by_flops=False))
    assert spread(replace(options, balance_by_flops=False)) < in_turn
    assert in_turn > 1.3


def test_micro_batches_of_similar_work_keep_the_budget() -> None:
    """Filled by tokens alone, a micro-batch of one long sequence does the work of many short ones."""
    lengths = [8000, 7000, 6000, *[(7919 * i) % 400 + 100 for i in range(200)]]
    cost, budget = SequenceCost(100, 1), 8192

    def work_of(by_flops: bool) -> list[int]:
        options = ScheduleOptions(1, 203, max_tokens_per_gpu=budget, balance_by_flops=by_flops, cost=cost)
        (plan,) = plan_steps(lengths, list(range(203)), options)
        assert all(sum(lengths[i] for i in members) <= budget for members in plan.ranks[0])
        return [sum(cost.of(lengths[i]) for i in members) for members in plan.ranks[0]]

    def unequal(work: list[int]) -> float:
        return max(work) * len(work) / sum(work)

    assert unequal(work_of(True)) < unequal(work_of(False))


def test_the_usual_round_is_one_step_of_few_full_micro_batches() -> None:
    (plan,) = plan_steps([14] * 512, list(range(512)), ScheduleOptions(1, 512, max_tokens_per_gpu=2048))
    assert [len(bins) for bins in plan.ranks[0]] == [146, 146, 146, 74]


def test_a_remainder_joins_the_last_step() -> None:
    plans = plan_steps([1] * 11, list(range(11)), ScheduleOptions(1, 4, max_tokens_per_gpu=100))
    assert [sum(len(bins) for bins in plan.ranks[0]) for plan in plans] == [4, 7]
    (only,) = plan_steps([1] * 3, list(range(3)), ScheduleOptions(1, 4, max_tokens_per_gpu=100))
    assert sum(len(bins) for bins in only.ranks[0]) == 3


def test_siblings_stay_in_one_step() -> None:
    plans = plan_steps([1] * 6, [0, 0, 1, 1, 2, 3], ScheduleOptions(1, 2, micro_batch_size=6))
    assert [sorted(plan.ranks[0][0]) for plan in plans] == [[0, 1, 2, 3], [4, 5]]


def test_ranks_get_equal_tokens() -> None:
    (plan,) = plan_steps([8, 7, 6, 5, 4, 3, 2, 1], list(range(8)), ScheduleOptions(2, 8, max_tokens_per_gpu=100))
    loads = [sum([8, 7, 6, 5, 4, 3, 2, 1][i] for bins in rank for i in bins) for rank in plan.ranks]
    assert loads == [18, 18]


def test_an_oversize_sample_sits_alone() -> None:
    (plan,) = plan_steps([5, 50, 5], [0, 1, 2], ScheduleOptions(1, 3, max_tokens_per_gpu=10))
    assert sorted(sorted(bins) for bins in plan.ranks[0]) == [[0, 2], [1]]


def test_too_few_samples_say_so() -> None:
    with pytest.raises(ScheduleError, match="step 0 has 2 samples for 4 data-parallel ranks"):
        plan_steps([1, 1], [0, 1], ScheduleOptions(4, 2))
    with pytest.raises(ScheduleError, match="global_batch_size is 0"):
        plan_steps([1], [0], ScheduleOptions(1, 0))


def test_micro_batches_come_in_whole_groups() -> None:
    """Of interleaved pipeline stages; three would do for these tokens, and two ranks of four each are made."""
    options = ScheduleOptions(2, 9, max_tokens_per_gpu=30, micro_batch_multiple=4)
    (plan,) = plan_steps([10] * 9, list(range(9)), options)
    assert [len(bins) for bins in plan.ranks] == [4, 4]
    assert sorted(position for bins in plan.ranks for members in bins for position in members) == list(range(9))
