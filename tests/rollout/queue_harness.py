"""Rounds from a queue over the small model of `bigram`.

The engine changes its model between tokens and can hold a request back, so that what a real one does once in a while
happens every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from slime.config.import_paths import FULLY_ASYNC
from slime.data.batch import BatchOptions
from slime.data.schedule import ScheduleOptions
from slime.data.source import PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.continuous import ContinuousRollout
from slime.rollout.outputs import RolloutFnTrainOutput
from slime.rollout.rounds import Rollouts
from slime.rollout.setup import RolloutSetup, RoundNumber

from .bigram import Bigram, BigramClient
from .harness import RUNNER, dataset, tools

FLAGS: dict[str, Any] = {
    "rollout_function_path": FULLY_ASYNC,
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
