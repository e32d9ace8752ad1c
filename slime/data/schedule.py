"""Which rank trains on which sequence, in which step and micro-batch.

Steps are cut by rollouts, micro-batches are filled up to a budget of tokens, and every rank gets the same number of
them, because gradient, expert and pipeline collectives run once for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from slime.data.flops import SequenceCost
from slime.data.micro_batches import fill_by_cost, fill_by_count, fill_by_tokens, split_until
from slime.data.partition import karmarkar_karp


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
        log_probs_max_tokens_per_gpu: token budget of a pass without gradients; None = `max_tokens_per_gpu`.
        balance_data: share out micro-batches so that ranks have equal work, not in turn.
        balance_by_flops: also cut micro-batches of equal work; needs a token budget.
        cost: the work of a sequence.
        micro_batch_multiple: the micro-batches of a rank in a step are a multiple of this; interleaved pipeline stages
            take them in groups.
    """

    dp_size: int
    global_batch_size: int
    max_tokens_per_gpu: int | None = None
    context_parallel_size: int = 1
    micro_batch_size: int = 1
    log_probs_max_tokens_per_gpu: int | None = None
    balance_data: bool = False
    balance_by_flops: bool = False
    cost: SequenceCost = field(default_factory=SequenceCost)
    micro_batch_multiple: int = 1

    @property
    def budget(self) -> int | None:
        """Tokens of a micro-batch over all ranks that share it; None without a limit."""
        return None if self.max_tokens_per_gpu is None else self.max_tokens_per_gpu * self.context_parallel_size


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: ``ranks[r][m]`` lists the samples of micro-batch m of rank r, by position in the input.

    An empty list stands where there are fewer samples than micro-batches; the caller puts a muted copy.
    """

    ranks: list[list[list[int]]]


def plan_steps(lengths: Sequence[int], rollout_ids: Sequence[int], options: ScheduleOptions) -> list[StepPlan]:
    """Cut samples into steps, micro-batches and ranks. The same input gives the same plan everywhere.

    Rollouts keep their order of first appearance. ``len(rollouts) // global_batch_size`` steps (at least one) are made;
    a remainder joins the last step, so no sample is lost and no step is a small noisy one. The loss divides by the true
    count.

    A sample above the token budget fits nowhere and is a micro-batch of its own: it must be trained, and cutting it
    would change it. `oversize` lists such samples.

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


def plan_log_probs(ranks: Sequence[Sequence[int]], options: ScheduleOptions) -> list[list[list[int]]]:
    """Micro-batches of a pass without gradients over the sequences of each rank, the same number on every rank.

    Args:
        ranks: tokens of each sequence of each rank, at least one a rank.
        options: sizes.

    Returns:
        ``plan[r][m]`` lists positions in ``ranks[r]``. Where a rank runs out, its shortest sequence stands again:
        computing it twice changes nothing, and collectives need a partner.
    """
    limit = options.log_probs_max_tokens_per_gpu or options.max_tokens_per_gpu
    plan = []
    for lengths in ranks:
        members = range(len(lengths))
        if limit is None:
            plan.append(fill_by_count(members, options.micro_batch_size))
        else:
            plan.append(fill_by_tokens(members, lengths, limit * options.context_parallel_size))
    target = max(len(bins) for bins in plan)
    for bins, lengths in zip(plan, ranks, strict=True):
        split_until(bins, target, lengths)
        shortest = min(range(len(lengths)), key=lengths.__getitem__)
        bins[:] = [members or [shortest] for members in bins]
    return plan


def oversize(lengths: Sequence[int], options: ScheduleOptions) -> list[int]:
    """Positions of the samples that exceed the token budget on their own."""
    budget = options.budget
    return [] if budget is None else [position for position, length in enumerate(lengths) if length > budget]


def _check(options: ScheduleOptions) -> None:
    for name in (
        "dp_size",
        "global_batch_size",
        "context_parallel_size",
        "micro_batch_size",
        "micro_batch_multiple",
        "max_tokens_per_gpu",
        "log_probs_max_tokens_per_gpu",
    ):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ScheduleError(f"{name} is {value}; it must be at least 1.")
    if options.balance_by_flops and options.max_tokens_per_gpu is None:
        raise ScheduleError("balance_by_flops cuts micro-batches by a token budget, and max_tokens_per_gpu is None.")


def _plan_step(chosen: list[int], lengths: Sequence[int], options: ScheduleOptions) -> StepPlan:
    costs = [options.cost.of(length) for length in lengths]
    if options.budget is None:
        bins = fill_by_count(chosen, options.micro_batch_size)
    elif options.balance_by_flops:
        bins = fill_by_cost(chosen, lengths, costs, options.budget)
    else:
        bins = fill_by_tokens(chosen, lengths, options.budget)
    multiple = options.dp_size * options.micro_batch_multiple
    split_until(bins, -(-len(bins) // multiple) * multiple, costs)
    # Dearest first, so that micro-batches which run at the same time on all ranks take about as long.
    bins.sort(key=lambda members: -sum(costs[position] for position in members))
    return StepPlan(_share_out(bins, costs, options))


def _share_out(bins: list[list[int]], costs: list[int], options: ScheduleOptions) -> list[list[list[int]]]:
    if options.balance_data or options.balance_by_flops:
        totals = [sum(costs[position] for position in members) for members in bins]
        parts = karmarkar_karp(totals, options.dp_size, equal_count=True)
    else:
        parts = [list(range(rank, len(bins), options.dp_size)) for rank in range(options.dp_size)]
    ranks = [[bins[number] for number in part] for part in parts]
    for own in ranks:
        # A muted copy is made of a rank's own sequence, so a rank cannot consist of empty micro-batches alone.
        if not any(own):
            donor = max(ranks, key=lambda other: sum(1 for members in other if members))
            filled = next(at for at in reversed(range(len(donor))) if donor[at])
            empty = own.index([])
            donor[filled], own[empty] = own[empty], donor[filled]
    return ranks
