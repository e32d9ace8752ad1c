"""Generation, sample and reward functions of the user's, in whole rounds; and the worked agent, token by token."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from slime.data.chat_template import ChatTemplate
from slime.data.conversation import encode_conversation
from slime.data.prompts import Prompt, PromptDataset
from slime.data.sample import Sample, Status
from slime.data.source import PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.context import current
from slime.rollout.errors import RolloutError
from slime.rollout.hook_loading import HookError
from slime.rollout.machinery import Machinery
from slime.rollout.text import TextTools, text_tools

from .bigram import Bigram, BigramClient, tokenize
from .harness import RUNNER, flat, round_of, tools


async def two_turns(args: Any, sample: Sample, sampling_params: dict[str, Any], evaluation: bool = True) -> Sample:
    assert evaluation is False
    context = current()
    assert sampling_params["max_new_tokens"] == context.budget(sample) == 5
    context.append(sample, await context.generate(sample, sample.tokens, {**sampling_params, "max_new_tokens": 2}))
    sample.append_response_tokens(tokenize("+"), trainable=False, text="+")
    context.append(sample, await context.generate(sample, sample.tokens, sampling_params))
    return sample


async def in_pieces(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> list[Sample]:
    context = current()
    other = replace(sample, metadata={})
    pieces = [context.append(one, await context.generate(one, one.tokens, sampling_params)) for one in (sample, other)]
    for piece in pieces:
        piece.reward = 0.25
    return pieces


async def unknown_parameter(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    await current().generate(sample, sample.tokens, {**sampling_params, "temprature": 1})
    return sample


async def first_only(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    """Does its work with the engine for the prompt 0+0=, and fails for others until it is asked a third time."""
    sample.metadata["asked"] = sample.metadata.get("asked", 0) + 1
    current().append(sample, await current().generate(sample, sample.tokens, sampling_params))
    if sample.group_index and sample.metadata["asked"] < 3:
        sample.status = Status.FAILED
    return sample


async def length_reward(args: Any, sample: Sample) -> dict[str, float]:
    return {"tokens": float(sample.response_length), "other": -1.0}


async def shortest(args: Any, samples: list[Sample]) -> list[float]:
    best = min(sample.response_length for sample in samples)
    return [float(sample.response_length == best) for sample in samples]


async def moody(args: Any, sample: Sample) -> float:
    if sample.index == 5:
        raise ConnectionError("the judge is away")
    return 1.0


def note(args: Any, sample: Sample, rollout_id: int, evaluation: bool) -> None:
    sample.metadata["seen"] = (rollout_id, evaluation)


async def shout(args: Any, sample: Sample) -> Sample:
    return replace(sample, response=sample.response + "!")


def custom(client: Any, grader: GraderPool, **flags: Any) -> Machinery:
    return tools(client, grader, replace(RUNNER, rollout_seed=1), rollout_batch_size=4, **flags)


def test_a_generation_function_makes_turns(grader: GraderPool) -> None:
    output = round_of(
        custom(BigramClient(Bigram(), "3"), grader, custom_generate_function_path=f"{__name__}.two_turns")
    )
    assert len(output.samples) == 4
    for sample in flat(output):
        response = sample.tokens[sample.prompt_length :]
        plus = (sample.loss_mask or []).index(0)
        assert response[plus] == tokenize("+")[0] and (sample.rollout_log_probs or [])[plus] == 0.0
        assert sum(sample.loss_mask or []) == len(response) - 1
        assert sample.response_length <= 5 + 0
        assert sample.weight_versions == ["3", "3"] or sample.status is Status.TRUNCATED


def test_a_trajectory_in_pieces_stays_one(grader: GraderPool) -> None:
    output = round_of(custom(BigramClient(Bigram()), grader, custom_generate_function_path=f"{__name__}.in_pieces"))
    for group in output.samples:
        assert len(group) == 8
        assert len({sample.rollout_id for sample in group}) == 4
    assert {sample.reward for sample in flat(output)} == {0.25}  # what the function set is kept


def test_an_unknown_sampling_parameter_is_named(grader: GraderPool) -> None:
    machinery = custom(BigramClient(Bigram()), grader, custom_generate_function_path=f"{__name__}.unknown_parameter")
    with pytest.raises(RolloutError, match=r"sample \d+ \(group \d\): sampling parameter 'temprature' is not known"):
        round_of(machinery)


def test_a_trajectory_that_failed_is_begun_again(grader: GraderPool) -> None:
    client = BigramClient(Bigram())
    output = round_of(custom(client, grader, custom_generate_function_path=f"{__name__}.first_only"))
    assert [len(group) for group in output.samples] == [4] * 4
    assert {sample.metadata["asked"] for sample in output.samples[1]} == {3}
    for sample in flat(output):
        sample.check()
        assert len(sample.weight_versions) == 1  # nothing of the failed attempts is left


def test_a_mapping_of_rewards_and_a_key(grader: GraderPool) -> None:
    flags = {"custom_rm_path": f"{__name__}.length_reward", "reward_key": "tokens"}
    for sample in flat(round_of(custom(BigramClient(Bigram()), grader, **flags))):
        assert sample.reward_value("tokens") == sample.response_length
        assert sample.verdict == "custom"
    with pytest.raises(HookError, match="a dict with the keys tokens, other; --reward-key must say which"):
        round_of(custom(BigramClient(Bigram()), grader, custom_rm_path=f"{__name__}.length_reward"))


def test_a_reward_of_whole_groups(grader: GraderPool) -> None:
    flags = {"custom_rm_path": f"{__name__}.shortest", "group_rm": True}
    for group in round_of(custom(BigramClient(Bigram()), grader, **flags)).samples:
        best = min(sample.response_length for sample in group)
        assert [sample.reward for sample in group] == [float(sample.response_length == best) for sample in group]


def test_a_reward_function_that_fails_now_and_then_costs_its_sample_alone(grader: GraderPool) -> None:
    output = round_of(custom(BigramClient(Bigram()), grader, custom_rm_path=f"{__name__}.moody"))
    (failed,) = [sample for sample in flat(output) if sample.verdict == "grader-error"]
    assert failed.index == 5 and failed.remove_sample
    assert "sample 5 (group 1)" in failed.verdict_reason and "the judge is away" in failed.verdict_reason


def test_sample_hooks_run_in_their_order_before_the_reward(grader: GraderPool) -> None:
    flags = {"rollout_sample_hook_path": (f"{__name__}.note", f"{__name__}.shout")}
    for sample in flat(round_of(custom(BigramClient(Bigram()), grader, **flags))):
        assert sample.metadata["seen"] == (3, False)
        assert sample.response.endswith("!")


@dataclass
class Script:
    """An engine that says given texts, one a request."""

    text: TextTools
    lines: list[str]
    asked: list[list[int]] = field(default_factory=list)

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        self.asked.append(list(input_ids))
        whole = [*self.text.encode(self.lines[len(self.asked) - 1]), *self.text.stop_token_ids]
        ids = whole[: sampling.max_new_tokens]
        return Generation(ids, [-0.25] * len(ids), "stop" if ids == whole else "length", "7")

    async def abort(self, rid: str) -> None: ...


def agent_turns(grader: GraderPool, lines: list[str], limit: int = 60) -> tuple[Sample, Script, TextTools]:
    """The example's agent with an engine that says `lines`."""
    from slime.tiny.tokenizer import END, build_tokenizer, vocabulary

    tokenizer = build_tokenizer(256)
    text = text_tools(tokenizer, False, (vocabulary()[END],))
    script = Script(text, lines)
    machinery = tools(script, grader, replace(RUNNER, sampling=SamplingParams(limit)), rollout_batch_size=1)
    runner = replace(machinery, text=text).sample_runner(
        machinery.runner, "examples.multi_turn_tools.agent:generate", evaluation=False
    )
    prompt = Prompt([{"role": "user", "content": "07+35+12="}], [], "54", {})
    ((sample,),) = PromptSource(PromptDataset([prompt], "tools"), 1).get_groups(1)
    (sample,) = asyncio.run(runner.run(sample))
    return sample, script, text


def test_the_agents_tokens_are_those_of_the_template(grader: GraderPool) -> None:
    """Ids, masks and log-probs of a trajectory with a call equal the template's own encoding of the conversation."""
    sample, script, text = agent_turns(grader, ["calc(07+35+12)", r"\boxed{54}"])
    conversation = [
        {"role": "user", "content": "07+35+12="},
        {"role": "assistant", "content": "calc(07+35+12)"},
        {"role": "tool", "content": "54"},
        {"role": "assistant", "content": r"\boxed{54}"},
    ]
    (whole,) = encode_conversation(ChatTemplate(text.tokenizer), conversation)
    assert sample.tokens == whole.tokens
    assert sample.prompt_length == whole.prompt_length
    assert sample.loss_mask == whole.loss_mask
    assert sample.rollout_log_probs == [-0.25 * trains for trains in whole.loss_mask]
    assert sample.status is Status.COMPLETED and sample.weight_versions == ["7", "7"]
    assert script.asked[1] == sample.tokens[: len(script.asked[1])]  # the second turn saw what the first one wrote
    sample.check(graded=False)


class Likeliest(BigramClient):
    """An engine that reports the two likeliest ids of each position."""

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        assert sampling.top_logprobs_num == 2
        found = await super().generate(input_ids, sampling, rid)
        ids = np.array([[token, (token + 1) % 12] for token in found.output_ids], dtype=np.int32)
        return replace(found, top_token_ids=ids, top_log_probs=np.full(ids.shape, -1.0, dtype=np.float32))


def test_tokens_of_a_tool_have_rows_of_likeliest_ids_too(grader: GraderPool) -> None:
    options = replace(RUNNER, sampling=SamplingParams(5, temperature=0.8, top_logprobs_num=2), rollout_seed=1)
    flags: dict[str, Any] = {"custom_generate_function_path": f"{__name__}.two_turns", "rollout_batch_size": 4}
    for sample in flat(round_of(tools(Likeliest(Bigram()), grader, options, **flags))):
        ids, values = sample.rollout_topk_token_ids, sample.rollout_topk_log_probs
        assert ids is not None and values is not None and ids.shape == (sample.response_length, 2)
        response = sample.tokens[sample.prompt_length :]
        for token, trains, row, log_probs in zip(response, sample.loss_mask or [], ids, values, strict=True):
            assert (token == row[0] and log_probs[0] == -1.0) if trains else np.exp(log_probs).sum() < 1e-20


def test_the_agent_answers_calls_or_stops(grader: GraderPool) -> None:
    direct, _, _ = agent_turns(grader, [r"\boxed{54}"])
    assert direct.loss_mask is None and direct.status is Status.COMPLETED
    odd, _, _ = agent_turns(grader, ["calc(07+__import__)"])
    assert odd.status is Status.COMPLETED and len(odd.weight_versions) == 1  # not a call, so an answer
    loop, _, _ = agent_turns(grader, ["calc(1+1)"] * 3)
    assert loop.status is Status.TRUNCATED and len(loop.weight_versions) == 3
    cut, _, _ = agent_turns(grader, ["calc(07+35+12)", r"\boxed{54}"], limit=20)
    assert cut.response_length == 20 and cut.status is Status.TRUNCATED
