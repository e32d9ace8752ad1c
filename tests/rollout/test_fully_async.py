"""Rounds from a queue that fills while training goes on: age, updates of the weights, and what it costs to wait."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

from slime.data.sample import Sample
from slime.rewards.pool import GraderPool
from slime.rollout.continuous import ContinuousRollout
from slime.rollout.outputs import RolloutFnTrainOutput
from slime.rollout.pacing import Pacing

from .bigram import Bigram
from .harness import flat
from .queue_harness import Engine, numbers, producer, quiet, rollouts, until, update, with_engine


def test_in_time_is_what_some_order_of_training_achieves() -> None:
    """Against all orders of up to five groups in batches of one to three."""
    for batch, bound, count in itertools.product((1, 2, 3), (0, 1, 2), range(6)):
        pacing = Pacing(batch, bound)
        for versions in itertools.product(range(3, 6), repeat=count):
            possible = any(
                all(5 + place // batch - version <= bound for place, version in enumerate(order))
                for order in itertools.permutations(versions)
            )
            assert pacing.in_time(versions, 5) == possible


@pytest.mark.parametrize("bound", [0, 1, 2, None])
def test_no_sample_twice_none_older_than_the_bound_and_none_thrown_away(grader: GraderPool, bound: int | None) -> None:
    async def work(engine: Engine) -> list[RolloutFnTrainOutput]:
        outputs = []
        async with rollouts(grader, engine, max_weight_staleness=bound) as run:
            for round_id in range(6):
                outputs.append(await run.generate(round_id, round_id + 1))
                await quiet(run)
                await update(run, engine, round_id + 2)
            assert producer(run).queue == {"rollout/queue_length": 0.0, "rollout/in_flight": 0.0}
            assert producer(run).unfinished() == []
        return outputs

    outputs = with_engine(work)
    trained = [number for output in outputs for number in numbers(output)]
    assert sorted(trained) == list(range(24)), "every group once, and no more than the run trains"
    ages = [output.metrics["staleness/max"] for output in outputs]
    assert max(ages) <= (3 if bound is None else bound), "without a bound: a batch that waits and 8 groups in flight"
    assert (max(ages) == 0) == (bound == 0)
    assert all(output.metrics["staleness/dropped_groups"] == 0 for output in outputs)
    tokens = sum(output.metrics["rollout/generated_tokens"] for output in outputs)
    assert tokens == sum(sample.response_length for output in outputs for sample in flat(output))
    assert all(len(sample.weight_versions) == 1 for output in outputs for sample in flat(output))


def test_a_round_waits_for_what_would_grow_too_old(grader: GraderPool) -> None:
    """Prompt 1 is slow. A bound of one update lets a round pass without it, and the next round waits for it."""

    async def work(engine: Engine) -> tuple[list[int], list[int], bool, float]:
        engine.held = {1}
        async with rollouts(grader, engine, max_weight_staleness=1, partial_rollout=True) as run:
            first = await run.generate(0, 1)
            await update(run, engine, 2)
            second = asyncio.create_task(run.generate(1, 2))
            await asyncio.sleep(0.05)
            waits = not second.done()
            engine.letting_go.set()
            output = await second
            return numbers(first), numbers(output), waits, output.metrics["staleness/max"]

    first, second, waits, age = with_engine(work)
    assert 1 not in first and 1 in second
    assert waits and age == 1


def test_without_a_bound_a_slow_group_holds_up_nobody(grader: GraderPool) -> None:
    async def work(engine: Engine) -> list[list[int]]:
        engine.held = {1}
        async with rollouts(grader, engine, num_rollout=2) as run:
            outputs = [await run.generate(0, 1)]
            engine.letting_go.set()
            await update(run, engine, 2)
            outputs.append(await run.generate(1, 2))
        return [numbers(output) for output in outputs]

    first, second = with_engine(work)
    assert 1 not in first and 1 in second
    assert sorted([*first, *second]) == list(range(8))


def test_nothing_is_done_while_a_batch_is_waited_for(grader: GraderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups 1 and 9, of the slow prompt, hold the round up; the queue looks at its groups when one ends, and not in
    between.
    """
    passes = 0
    settle = ContinuousRollout._settle

    def counted(self: ContinuousRollout) -> bool:
        nonlocal passes
        passes += 1
        return settle(self)

    monkeypatch.setattr(ContinuousRollout, "_settle", counted)

    async def work(engine: Engine) -> tuple[int, int]:
        engine.held = {1}
        async with rollouts(grader, engine, max_weight_staleness=1, partial_rollout=True) as run:
            await run.generate(0, 1)
            await update(run, engine, 2)
            second = asyncio.create_task(run.generate(1, 2))
            await asyncio.sleep(0)  # it has begun, and asked for its groups
            waiting = {"rollout/queue_length": 6.0, "rollout/in_flight": 2.0}
            await until(lambda: producer(run).queue == waiting)
            for _ in range(10):
                await asyncio.sleep(0)
            before = passes
            for _ in range(1000):
                await asyncio.sleep(0)
            after = passes
            assert not second.done()
            engine.letting_go.set()
            await second
            return before, after

    before, after = with_engine(work)
    assert after == before
    assert passes > after, "the end of a slow group is a pass"


def test_an_update_waits_for_responses_without_partial_rollout(grader: GraderPool) -> None:
    async def work(engine: Engine) -> tuple[bool, list[list[str]]]:
        engine.held = {1}
        async with rollouts(grader, engine, max_weight_staleness=1) as run:
            await run.generate(0, 1)
            pausing = asyncio.create_task(update(run, engine, 2))
            await asyncio.sleep(0.05)
            waits = not pausing.done()
            engine.letting_go.set()
            await pausing
            output = await run.generate(1, 2)
            slow = next(group for group in output.samples if group[0].group_index == 1)
            return waits, [sample.weight_versions for sample in slow]

    waits, versions = with_engine(work)
    assert waits
    assert versions == [["1"]] * 4, "begun and finished by the weights before"


@pytest.mark.parametrize("mask", [False, True])
def test_partial_rollout_goes_on_with_the_new_weights(grader: GraderPool, mask: bool) -> None:
    """Each token keeps the log-prob of the model that sampled it, checked against that model."""

    async def work(engine: Engine) -> list[Sample]:
        flags: dict[str, Any] = {
            "partial_rollout": True,
            "mask_offpolicy_in_partial_rollout": mask,
            "max_weight_staleness": 1,
        }
        engine.held = {1}
        async with rollouts(grader, engine, **flags) as run:
            await run.generate(0, 1)
            await update(run, engine, 2)
            engine.letting_go.set()
            return flat(await run.generate(1, 2))

    samples = with_engine(work)
    continued = [sample for sample in samples if sample.weight_versions == ["1", "2"]]
    assert continued and {sample.group_index for sample in continued} == {1}
    for sample in samples:
        ids, found = sample.tokens[sample.prompt_length - 1 :], sample.rollout_log_probs or []
        expected = {
            version: [Bigram(version).log_probs(a, 1.0)[b] for a, b in itertools.pairwise(ids)] for version in (1, 2)
        }
        old = [int(np.isclose(value, expected[1][place], atol=1e-9)) for place, value in enumerate(found)]
        new = [int(np.isclose(value, expected[2][place], atol=1e-9)) for place, value in enumerate(found)]
        assert all(a or b for a, b in zip(old, new, strict=True))
        if sample.weight_versions == ["1", "2"]:
            cut = 1
            assert old[0] and all(new[1:]) and len(found) > 1, "one token of the old weights, then the new ones"
            assert sample.mask() == ([0] * cut + [1] * (len(found) - cut) if mask else [1] * len(found))
