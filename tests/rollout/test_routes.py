"""The sampler's experts on their way into samples: whole responses, turns with tools, and rounds that go on."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slime.data.batch import BatchOptions, build_train_batches
from slime.data.routes import Routes, RouteShape
from slime.data.sample import Sample, Status
from slime.data.schedule import ScheduleOptions
from slime.rewards.pool import GraderPool
from slime.rollout.client import FinishReason, Generation, RouteRequest, SamplingParams
from slime.rollout.context import current
from slime.rollout.errors import RolloutError
from slime.rollout.runner import RunnerOptions, SampleRunner
from slime.rollout.text import TextTools

from .bigram import EOS, Bigram, BigramClient, decode, tokenize
from .harness import RUNNER, flat, round_of, tools

SHAPE = RouteShape(layers=3, with_experts=(1, 2), chosen=2, count=9)
SAMPLING = SamplingParams(5, temperature=0.8, routes=RouteRequest(SHAPE))


def same(routes: Routes | None, wanted: np.ndarray) -> bool:
    return routes is not None and np.array_equal(routes, wanted)


def expected(tokens: list[int], version: int = 0) -> np.ndarray:
    """Experts that depend on the token, its place and the weights, so that a row out of place shows."""
    rows = [[[(token + place + layer + version + k) % 9 for k in range(2)] for layer in range(3)]
            for place, token in enumerate(tokens[:-1])]  # fmt: skip
    return np.array(rows, SHAPE.dtype).reshape(-1, 3, 2)


class Routing(BigramClient):
    """An engine that says which experts it chose."""

    def __init__(self, version: int = 0) -> None:
        super().__init__(Bigram(), str(version))
        self.starts: list[int] = []

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        found = await super().generate(input_ids, sampling, rid)
        if sampling.routes is None or not found.output_ids:
            return found
        start = sampling.routes.start
        self.starts.append(start)
        routes = expected([*input_ids, *found.output_ids], int(self.version))[start:]
        return replace(found, routed_experts=routes, routes_start=start)


def test_a_round_carries_them_to_the_batch(grader: GraderPool) -> None:
    client = Routing()
    output = round_of(tools(client, grader, replace(RUNNER, sampling=SAMPLING)))
    assert set(client.starts) == {0}
    for sample in flat(output):
        assert same(sample.rollout_routed_experts, expected(sample.tokens))
        back = Sample.from_dict(json.loads(json.dumps(sample.to_dict())))
        assert back.rollout_routed_experts is not None and back.rollout_routed_experts.dtype == np.uint8
        assert same(sample.rollout_routed_experts, back.rollout_routed_experts)
    options = BatchOptions(ScheduleOptions(dp_size=2, global_batch_size=24, micro_batch_size=3))
    batches = build_train_batches(output.samples, options, 0)
    for sequence in (one for batch in batches for one in batch.sequences):
        assert same(sequence.rollout_routed_experts, expected(sequence.tokens.tolist()))


async def with_tool(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    """A turn, a tool's answer, a turn; and a tool's answer that nobody reads."""
    context = current()
    for _ in range(2):
        context.append(sample, await context.generate(sample, sample.tokens, {**sampling_params, "max_new_tokens": 2}))
        sample.append_response_tokens([1, 2, 3], trainable=False)
    sample.status = Status.COMPLETED
    return sample


def test_tokens_of_a_tool_are_routed_by_the_next_turn(grader: GraderPool) -> None:
    client = Routing()
    options = replace(RUNNER, sampling=replace(SAMPLING, max_new_tokens=20))
    flags: dict[str, Any] = {"custom_generate_function_path": f"{__name__}.with_tool", "rollout_batch_size": 4}
    for sample in flat(round_of(tools(client, grader, options, **flags))):
        whole = sample.rollout_routed_experts
        assert whole is not None
        assert np.array_equal(whole, expected(sample.tokens[:-3]))  # no engine saw the last answer
    # The second turn asks for what the first could not know: its own last token, the tool's, and the new ones.
    assert sorted({*client.starts} - {0}) and 0 in client.starts


async def forgetful(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    """Leaves the experts out."""
    found = await current().generate(sample, sample.tokens, sampling_params)
    sample.append_response_tokens(found.output_ids, found.logprobs, weight_version=found.weight_version)
    sample.status = Status.COMPLETED
    return sample


async def elsewhere(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    """Generates after tokens that are not the sample's."""
    return current().append(sample, await current().generate(sample, sample.tokens[1:], sampling_params))


@pytest.mark.parametrize(
    ("name", "message"),
    [("forgetful", "has no rollout_routed_experts"), ("elsewhere", "experts of tokens 0 to")],
)
def test_a_function_that_loses_them_is_refused(name: str, message: str, grader: GraderPool) -> None:
    flags: dict[str, Any] = {"custom_generate_function_path": f"{__name__}.{name}", "rollout_batch_size": 4}
    with pytest.raises(RolloutError, match=message):
        round_of(tools(Routing(), grader, replace(RUNNER, sampling=SAMPLING), **flags))


def test_a_response_that_goes_on_keeps_the_experts_of_its_first_weights() -> None:
    """As a partial rollout does: saved by one round, continued by the next with other weights."""
    options = RunnerOptions(SAMPLING, 1, partial_rollout=True, rollout_seed=1)
    sample = Sample(group_index=0, index=0, prompt="1+1=", tokens=tokenize("1+1="), prompt_length=4)
    text = TextTools(tokenize, decode, (EOS,))

    async def run(client: Routing, one: Sample, limit: int, reason: FinishReason) -> None:
        runner = SampleRunner(client, text, options)
        sampling = replace(SAMPLING, max_new_tokens=limit, banned_token_ids=(EOS,))
        found = await runner.request(one, one.tokens, sampling)
        runner.append(one, replace(found, finish_reason=reason))

    first, second = Routing(0), Routing(4)
    asyncio.run(run(first, sample, 2, "abort"))
    sample = Sample.from_dict(json.loads(json.dumps(sample.to_dict())))
    asyncio.run(run(second, sample, 3, "length"))
    assert second.starts == [5] and len(sample.tokens) == 9
    routes = sample.rollout_routed_experts
    assert routes is not None
    assert np.array_equal(routes[:5], expected(sample.tokens)[:5])
    assert np.array_equal(routes[5:], expected(sample.tokens, 4)[5:])
