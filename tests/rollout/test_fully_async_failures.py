"""What ends generation in the background, and what becomes of its prompts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from slime.data.sample import Sample
from slime.data.source import PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.hook_loading import HookError
from slime.rollout.outputs import RolloutFnTrainOutput

from .harness import dataset
from .queue_harness import Engine, numbers, rollouts, update, with_engine

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
