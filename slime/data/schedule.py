"""Which rank trains on which sequence, in which step and micro-batch.

Steps are cut by rollouts, ranks are balanced by tokens, micro-batches are filled up to a token budget, and every rank
ends with the same number of micro-batches, because gradient and pipeline collectives run once for each.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import islice


class ScheduleError(ValueError):
    """The samples cannot be scheduled; the message says which number is short."""


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """Names are the flags'.

    Attributes:
        dp_size: data-parallel ranks.
        global_batch_size: rollouts a step.
        max_tokens_per_gpu: token budget of a micro-batch (``--use-dynamic-batch-size``); None = `micro_batch_size`.
        context_parallel_size: ranks that share one sequence; the budget holds for each of them.
        micro_batch_size: sequences a micro-batch, when there is no token budget.
    """

    dp_size: int
    global_batch_size: int
    max_tokens_per_gpu: int | None = None
    context_parallel_size: int = 1
    micro_batch_size: int = 1


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: ``ranks[r][m]`` lists the samples of micro-batch m of rank r, by position in the input.

    An empty list stands where a rank has fewer samples than others have micro-batches; the caller puts a muted copy.
    """

    ranks: list[list[list[int]]]


def plan_steps(lengths: list[int], rollout_ids: list[int], options: ScheduleOptions) -> list[StepPlan]:
    """Cut samples into steps, ranks and micro-batches. The same input gives the same plan everywhere.

    Rollouts keep their order of first appearance. ``len(rollouts) // global_batch_size`` steps (at least one) are made;
    a remainder joins the last step, so no sample is lost and no step is a small noisy one. The loss divides by the true
    count.

    Args:
        lengths: tokens of each sample, prompt included.
        rollout_ids: rollout of each sample; siblings stay in one step.
        options: sizes.

    Raises:
        ScheduleError: if a size is below 1 or a step has fewer samples than there are ranks.
    """
    _check(options)
    by_rollout: dict[int, list[int]] = {}
    for position, rollout in enumerate(rollout_ids):
        by_rollout.setdefault(rollout, []).append(position)
    count = max(1, len(by_rollout) // options.global_batch_size)
    rollouts = iter(by_rollout.values())
    plans = []
    for step in range(count):
        size = options.global_batch_size if step < count - 1 else len(by_rollout)
        chosen = [position for siblings in islice(rollouts, size) for position in siblings]
        if len(chosen) < options.dp_size:
            raise ScheduleError(
                f"step {step} has {len(chosen)} samples for {options.dp_size} data-parallel ranks; each needs one. "
                "Raise --rollout-batch-size or --n-samples-per-prompt."
            )
        plans.append(_plan_step(chosen, lengths, options))
    return plans


def _check(options: ScheduleOptions) -> None:
    for name in ("dp_size", "global_batch_size", "context_parallel_size", "micro_batch_size", "max_tokens_per_gpu"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ScheduleError(f"{name} is {value}; it must be at least 1.")


def _plan_step(chosen: list[int], lengths: list[int], options: ScheduleOptions) -> StepPlan:
    ranks = [_fill(own, lengths, options) for own in _balance(chosen, lengths, options.dp_size)]
    target = max(len(bins) for bins in ranks)
    for bins in ranks:
        _split_until(bins, target, lengths)
    return StepPlan(ranks)


def _balance(chosen: list[int], lengths: list[int], dp_size: int) -> list[list[int]]:
    """Longest first onto the lightest rank, with equal counts (one more on the first ranks if they do not divide)."""
    ranks: list[list[int]] = [[] for _ in range(dp_size)]
    room = [len(chosen) // dp_size + (rank < len(chosen) % dp_size) for rank in range(dp_size)]
    lightest = [(0, rank) for rank in range(dp_size)]
    for position in sorted(chosen, key=lambda i: (-lengths[i], i)):
        load, rank = heapq.heappop(lightest)
        ranks[rank].append(position)
        if len(ranks[rank]) < room[rank]:
            heapq.heappush(lightest, (load + lengths[position], rank))
    return ranks


def _fill(own: list[int], lengths: list[int], options: ScheduleOptions) -> list[list[int]]:
    """Micro-batches of one rank. `own` comes longest first, so first fit is first fit decreasing."""
    if options.max_tokens_per_gpu is None:
        size = options.micro_batch_size
        return [own[i : i + size] for i in range(0, len(own), size)]
    budget = options.max_tokens_per_gpu * options.context_parallel_size
    bins: list[list[int]] = []
    loads: list[int] = []
    for position in own:
        # A sample above the budget fits nowhere and sits alone: it must be trained, and cutting it would change it.
        fit = next((i for i, load in enumerate(loads) if load + lengths[position] <= budget), None)
        if fit is None:
            bins.append([position])
            loads.append(lengths[position])
        else:
            bins[fit].append(position)
            loads[fit] += lengths[position]
    return bins


def _split_until(bins: list[list[int]], target: int, lengths: list[int]) -> None:
    """Halve the heaviest divisible micro-batch until there are `target`; pad with empty ones if none divides."""
    while len(bins) < target:
        divisible = [i for i, members in enumerate(bins) if len(members) > 1]
        if not divisible:
            bins.append([])
            continue
        heaviest = max(divisible, key=lambda i: sum(lengths[position] for position in bins[i]))
        halves: tuple[list[int], list[int]] = ([], [])
        loads = [0, 0]
        for position in sorted(bins[heaviest], key=lambda i: (-lengths[i], i)):
            side = 0 if loads[0] <= loads[1] else 1
            halves[side].append(position)
            loads[side] += lengths[position]
        bins[heaviest] = halves[0]
        bins.append(halves[1])
