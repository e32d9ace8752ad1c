"""Rounds from a queue that fills while training goes on, over the small model of `bigram`.

The engine of these tests changes its model between tokens and can hold a request back, so that what a real one does
once in a while happens every time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slime.data.batch import BatchOptions
from slime.data.sample import Sample, Status
from slime.data.schedule import ScheduleOptions
from slime.data.source import PromptSource, ResumeError
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.continuous import ContinuousRollout
from slime.rollout.errors import RolloutError
from slime.rollout.hook_loading import HookError
from slime.rollout.outputs import RolloutFnTrainOutput
from slime.rollout.pacing import Pacing
from slime.rollout.rounds import Rollouts
from slime.rollout.setup import RolloutSetup, RoundNumber

from .bigram import Bigram, BigramClient
from .harness import RUNNER, dataset, flat, tools

PATH = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"
FLAGS: dict[str, Any] = {
    "rollout_function_path": PATH,
    "num_rollout": 6,
    "rollout_batch_size": 4,
    "rollout_num_gpus": 1,
}


class Engine(BigramClient):
    """Samples from the model of its version. Requests for the prompts of `held`, by their first digit, stand still
    after one token, until they are aborted or `letting_go` is set.
    """

    def __init__(self) -> None:
        super().__init__(Bigram(1), "1")
        self.held: set[int] = set()
        self.letting_go = asyncio.Event()

    def update(self, version: int) -> None:
        self.model, self.version = Bigram(version), str(version)

    async def _sample(self, prompt: list[int], sampling: SamplingParams, rid: str, draw: Any) -> Generation:
        if prompt[0] not in self.held:
            return await super()._sample(prompt, sampling, rid, draw)
        first = await super()._sample(prompt, replace(sampling, max_new_tokens=1), rid, draw)
        if first.finish_reason == "stop" or sampling.max_new_tokens == 1:
            return first
        while not self.letting_go.is_set():
            if rid in self.aborted:
                return replace(first, finish_reason="abort")
            await asyncio.sleep(0.001)
        rest = replace(sampling, max_new_tokens=sampling.max_new_tokens - 1)
        then = await super()._sample([*prompt, *first.output_ids], rest, rid, draw)
        return replace(
            then, output_ids=[*first.output_ids, *then.output_ids], logprobs=[*first.logprobs, *then.logprobs]
        )


def rollouts(grader: GraderPool, engine: BigramClient, source: PromptSource | None = None, **flags: Any) -> Rollouts:
    runner = replace(RUNNER, concurrency=flags.pop("concurrency", 32), sampling=SamplingParams(max_new_tokens=5))
    machinery = tools(engine, grader, runner, **{**FLAGS, **flags})
    setup = RolloutSetup(
        config=machinery.config, source=source or PromptSource(dataset(), 4), held_out=(), text=machinery.text,
        hooks=machinery.hooks, runner=machinery.runner, rewards=machinery.rewards,
        batch=BatchOptions(ScheduleOptions(1, 16)), notes=[], round=RoundNumber(),
    )  # fmt: skip
    return Rollouts(setup, machinery.client, grader, emit=None)


def producer(run: Rollouts) -> ContinuousRollout:
    found = run.tools.background.producer
    assert isinstance(found, ContinuousRollout)
    return found


async def update(run: Rollouts, engine: Engine, version: int) -> None:
    """A weight update as the loop does it."""
    await run.pause()
    assert engine.in_flight == 0
    engine.update(version)
    run.resume(version)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def quiet(run: Rollouts) -> None:
    """Until nothing happens any more without a round that takes what is there."""
    await until(lambda: producer(run).queue["rollout/in_flight"] == 0)


def numbers(output: RolloutFnTrainOutput) -> list[int]:
    found = [group[0].group_index for group in output.samples]
    return [number for number in found if number is not None]


def with_engine(work: Callable[[Engine], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        return await work(Engine())

    return asyncio.run(inside())


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


def test_a_checkpoint_holds_what_is_in_flight_and_what_waits(grader: GraderPool) -> None:
    """Saved after the first round, with graded groups in the queue and others in flight; the resumed run trains each
    of them once, and does not generate graded ones again.
    """
    saved: dict[str, Any] = {}

    async def begin(engine: Engine) -> list[int]:
        engine.held = {5}
        async with rollouts(grader, engine) as run:
            output = await run.generate(0, 1)
            await until(lambda: producer(run).queue["rollout/queue_length"] >= 3)
            saved.update(json.loads(json.dumps(run.state_dict())))
            assert producer(run).queue["rollout/in_flight"] > 0
        return numbers(output)

    async def resume(engine: Engine) -> tuple[list[int], int]:
        async with rollouts(grader, engine) as run:
            run.load_state_dict(saved)
            found = []
            for round_id in range(1, 6):
                found += numbers(await run.generate(round_id, round_id + 1))
                await update(run, engine, round_id + 2)
            return found, len(engine.asked)

    first = with_engine(begin)
    waiting = saved["unfinished_groups"]
    graded = [group[0]["group_index"] for group in waiting if group[0]["reward"] is not None]
    assert len(graded) >= 3 and len(waiting) > len(graded)
    assert all(sample["weight_versions"] == ["1"] for group in waiting for sample in group if sample["reward"])
    assert all(sample["response_length"] == 0 for group in waiting for sample in group if sample["reward"] is None)
    later, _ = with_engine(resume)
    assert sorted([*first, *later]) == list(range(24))


def test_a_damaged_checkpoint_is_refused_and_changes_nothing(grader: GraderPool) -> None:
    async def work(engine: Engine) -> None:
        run = rollouts(grader, engine)
        state = {**run.state_dict(), "offset": 3, "unfinished_groups": [[{"indx": 3}]]}
        with pytest.raises(ResumeError, match="no field 'indx'; the nearest is 'index'"):
            run.load_state_dict(state)
        assert run.setup.source.state_dict()["offset"] == 0

    with_engine(work)


def test_what_is_too_old_begins_again_and_is_counted(grader: GraderPool) -> None:
    """Groups that a checkpoint brings from version 1, in a run that allows one update and begins at version 4."""
    source = PromptSource(dataset(), 4)
    old = source.get_groups(2)
    for sample in (sample for group in old for sample in group):
        sample.append_response_tokens([0, 1], [-1.0, -1.0], text="01", weight_version="1")
        sample.status, sample.reward = Status.COMPLETED, 1.0

    async def work(engine: Engine) -> RolloutFnTrainOutput:
        engine.update(4)
        source.add_groups(old)
        async with rollouts(grader, engine, source, max_weight_staleness=1) as run:
            return await run.generate(3, 4)

    output = with_engine(work)
    assert output.metrics["staleness/dropped_groups"] == 2
    assert output.metrics["staleness/dropped_tokens"] == 2 * 4 * 2
    assert output.metrics["staleness/max"] == 0
    assert numbers(output) == [0, 1, 2, 3]


FAILING: list[bool] = []


async def failing(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    if FAILING:
        raise ZeroDivisionError("of the user's")
    from slime.rollout.context import current

    return current().append(sample, await current().generate(sample, sample.tokens, sampling_params))


def test_a_hook_that_fails_in_the_background_ends_the_next_round(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)

    async def work(engine: Engine) -> list[int]:
        first: list[int] = []
        async with rollouts(grader, engine, source, custom_generate_function_path=f"{__name__}.failing") as run:
            with pytest.raises(HookError, match="of the user's"):
                for round_id in range(6):
                    first += numbers(await run.generate(round_id, 1))
                    FAILING.append(True)
            with pytest.raises(HookError, match="of the user's"):
                await run.pause()
        return first

    first = with_engine(work)
    back = [group[0].group_index for group in source.buffer.groups]
    assert sorted([*first, *back]) == list(range(source.group_index)), "no prompt is lost"
    assert all(sample.response_length == 0 for group in source.buffer.groups for sample in group)


def test_an_interrupted_round_gives_its_prompts_back(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)

    async def work(engine: Engine) -> None:
        engine.held = set(range(8))
        async with rollouts(grader, engine, source) as run:
            round_ = asyncio.create_task(run.generate(0, 1))
            await asyncio.sleep(0.05)
            round_.cancel()
            with suppress(asyncio.CancelledError):
                await round_
        assert engine.in_flight == 0

    with_engine(work)
    assert [group[0].group_index for group in source.buffer.groups] == list(range(source.group_index))


def reject(args: Any, samples: list[Sample], **_: Any) -> bool:
    return False


def test_a_filter_that_drops_everything_ends_the_run(grader: GraderPool) -> None:
    async def work(engine: Engine) -> None:
        flags: dict[str, Any] = {"dynamic_sampling_filter_path": f"{__name__}.reject", "dynamic_sampling_max_rounds": 3}
        async with rollouts(grader, engine, **flags) as run:
            with pytest.raises(RolloutError, match=r"0 of 4 groups .* 12 were generated in vain .* is 3 batches"):
                await run.generate(0, 1)

    with_engine(work)


class Unwilling(Engine):
    """Aborts the first three requests for a prompt by itself, as an engine does that is short of memory."""

    async def _sample(self, prompt: list[int], sampling: SamplingParams, rid: str, draw: Any) -> Generation:
        if prompt[0] == 1 and self.asked[tuple(prompt)] < 3 * 4:
            return Generation([], [], "abort", self.version)
        return await super()._sample(prompt, sampling, rid, draw)


def test_a_group_that_the_engine_gives_up_begins_again(grader: GraderPool) -> None:
    async def work() -> RolloutFnTrainOutput:
        async with rollouts(grader, Unwilling(), num_rollout=1, concurrency=16) as run:
            return await run.generate(0, 1)

    output = asyncio.run(work())
    assert numbers(output) == [0, 1, 2, 3]
    assert output.metrics["rollout/aborted_groups"] == 1


def test_a_round_by_round_function_has_nothing_to_pause(grader: GraderPool) -> None:
    async def work(engine: Engine) -> None:
        async with rollouts(grader, engine, rollout_function_path="slime.rollout.generate.generate_rollout") as run:
            await run.generate(0, 1)
            await update(run, engine, 2)
            assert "unfinished_groups" not in run.state_dict()

    with_engine(work)
