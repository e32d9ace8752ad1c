"""A round, over a real sampler and the real graders: what comes out, and what happens when something gives way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from slime.data.prompts import Prompt, PromptDataset
from slime.data.sample import Status
from slime.data.source import PromptSource
from slime.rewards.graders import grade
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.generate import RolloutOptions, RolloutResult, generate_rollout

from .bigram import EOS, Bigram, BigramClient, decode, tokenize

OPTIONS = RolloutOptions(6, SamplingParams(max_new_tokens=5, temperature=0.8), "math", concurrency=7)


def dataset(count: int = 8) -> PromptDataset:
    texts = [f"{i}+{i}=" for i in range(count)]
    return PromptDataset([Prompt(text, tokenize(text), str(i % 3), {}) for i, text in enumerate(texts)], "bigram")


def round_of(
    client: Any, grader: GraderPool, options: RolloutOptions = OPTIONS, source: PromptSource | None = None
) -> RolloutResult:
    source = source or PromptSource(dataset(), 4)
    return asyncio.run(generate_rollout(client, source, grader, decode, options, rollout_id=3, emit=None))


def test_samples_hold_what_the_model_sampled(grader: GraderPool) -> None:
    model = Bigram()
    result = round_of(BigramClient(model, "17"), grader)
    assert [len(group) for group in result.groups] == [4] * 6
    assert [sample.index for group in result.groups for sample in group] == list(range(24))
    statuses = set()
    for sample in (sample for group in result.groups for sample in group):
        response = sample.tokens[sample.prompt_length :]
        last = sample.tokens[sample.prompt_length - 1 : -1]
        assert sample.tokens[: sample.prompt_length] == tokenize(sample.prompt)
        assert sample.rollout_log_probs == [
            float(model.log_probs(a, 0.8)[b]) for a, b in zip(last, response, strict=True)
        ]
        assert sample.status is (Status.COMPLETED if response[-1] == EOS else Status.TRUNCATED)
        assert sample.response == decode(response)
        assert sample.weight_versions == ["17"]
        verdict = grade("math", sample.response, sample.label)
        assert (sample.reward, sample.verdict, sample.verdict_reason) == (verdict.score, verdict.kind, verdict.reason)
        statuses.add((sample.status, sample.verdict))
    assert len(statuses) >= 3
    assert result.returned_groups == 0
    assert result.generated_tokens == sum(s.response_length for group in result.groups for s in group)


def test_the_result_does_not_depend_on_concurrency(grader: GraderPool) -> None:
    def tokens(concurrency: int) -> list[list[int]]:
        result = round_of(BigramClient(Bigram()), grader, replace(OPTIONS, concurrency=concurrency))
        return [sorted(sample.tokens for sample in group) for group in result.groups]  # type: ignore[misc]

    assert tokens(1) == tokens(5) == tokens(1000)


def test_concurrency_is_a_limit(grader: GraderPool) -> None:
    client = BigramClient(Bigram())
    round_of(client, grader)
    assert client.most_in_flight == 7


def test_the_context_limit_cuts_the_budget_and_names_what_does_not_fit(grader: GraderPool) -> None:
    result = round_of(BigramClient(Bigram()), grader, replace(OPTIONS, max_context_len=6))
    assert max(len(sample.tokens) for group in result.groups for sample in group) == 6
    source = PromptSource(dataset(), 4)
    with pytest.raises(RolloutError, match=r"the prompt has 4 tokens and --rollout-max-context-len is 4"):
        round_of(BigramClient(Bigram()), grader, replace(OPTIONS, max_context_len=4), source)
    assert len(source.buffer) == 6


class AbortsFirst(BigramClient):
    """An engine that aborts the first request for each prompt, as one does while its weights change."""

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        is_first = tuple(input_ids) not in self.asked
        generation = await super().generate(input_ids, sampling, rid)
        return replace(generation, finish_reason="abort") if is_first else generation


def test_a_request_that_the_engine_aborts_is_made_again(grader: GraderPool) -> None:
    client = AbortsFirst(Bigram())
    result = round_of(client, grader)
    assert len(result.groups) == 6
    assert set(client.asked.values()) == {4}  # counted from 0: five requests for four samples
    for sample in (sample for group in result.groups for sample in group):
        sample.check()


class Stuck(BigramClient):
    """An engine that answers prompts about `stuck` only once they are aborted."""

    stuck = tokenize("2+2=")

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        generation = await super().generate(input_ids, sampling, rid)
        if input_ids[:4] == self.stuck:
            while rid not in self.aborted:
                await asyncio.sleep(0.01)
            return replace(generation, finish_reason="abort")
        return generation


def test_a_group_over_the_deadline_goes_back_to_the_source(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)
    client = Stuck(Bigram())
    result = round_of(client, grader, replace(OPTIONS, deadline=1.0, concurrency=100), source)
    assert [group[0].prompt for group in result.groups] == ["0+0=", "1+1=", "3+3=", "4+4=", "5+5="]
    assert result.returned_groups == 1
    assert len(client.aborted) == 4
    (back,) = source.get_groups(1)
    assert [(s.index, s.tokens, s.status, s.reward) for s in back] == [
        (8 + k, tokenize("2+2="), Status.PENDING, None) for k in range(4)
    ]


def test_a_round_without_any_whole_group_is_refused(grader: GraderPool) -> None:
    source = PromptSource(dataset(3), 2)
    source.offset = 2
    with pytest.raises(RolloutError, match=r"no group of 1 was whole after the deadline of 0.2 s"):
        round_of(Stuck(Bigram()), grader, replace(OPTIONS, rollout_batch_size=1, deadline=0.2), source)
    assert [group[0].prompt for group in source.buffer.groups] == ["2+2="]


class Dies(BigramClient):
    """An engine that is gone after ten requests."""

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        if sum(self.asked.values()) + len(self.asked) >= 10:
            raise ConnectionError("engine is gone")
        return await super().generate(input_ids, sampling, rid)


def test_a_dead_engine_raises_its_error_and_loses_no_prompt(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)
    client = Dies(Bigram())
    with pytest.raises(ConnectionError, match="engine is gone"):
        round_of(client, grader, OPTIONS, source)
    assert client.in_flight == 0
    retried = round_of(BigramClient(Bigram()), grader, OPTIONS, source)
    assert [group[0].prompt for group in retried.groups] == [f"{i}+{i}=" for i in range(6)]
    assert [group[0].group_index for group in retried.groups] == list(range(6))


class Broken(BigramClient):
    """An engine whose answers break the contract."""

    change: dict[str, Any]

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        return replace(await super().generate(input_ids, sampling, rid), **self.change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"logprobs": [-0.1]}, r"returned \d tokens with 1 log-probs"),
        ({"output_ids": [1] * 9, "logprobs": [-0.1] * 9}, "returned 9 tokens, the request's limit was 5"),
        ({"output_ids": [1], "logprobs": [float("nan")]}, r"rollout_log_probs\[0\] is nan"),
        ({"output_ids": [], "logprobs": []}, "response_length is 0"),
    ],
)
def test_answers_that_break_the_contract_are_refused(grader: GraderPool, change: dict[str, Any], words: str) -> None:
    client = Broken(Bigram())
    client.change = change
    with pytest.raises((RolloutError, ValueError), match=words):
        round_of(client, grader)


def test_grader_errors_leave_the_loss_and_too_many_stop_the_run(grader: GraderPool) -> None:
    data = dataset()
    data.prompts[0].metadata["answer_type"] = "no such type"
    result = round_of(
        BigramClient(Bigram()), grader, replace(OPTIONS, max_grader_error_ratio=0.5), PromptSource(data, 4)
    )
    failed = [sample for sample in result.groups[0] if sample.verdict == "grader-error"]
    assert failed
    assert all(sample.remove_sample and sample.mask() == [0] * sample.response_length for sample in failed)
    source = PromptSource(data, 4)
    with pytest.raises(RolloutError, match=r"the grader failed on \d of 4 samples \(limit 10%\).*no such type"):
        round_of(
            BigramClient(Bigram()), grader, replace(OPTIONS, rollout_batch_size=1, max_grader_error_ratio=0.1), source
        )
    assert not source.buffer.groups[0][0].remove_sample


def test_progress_lines(grader: GraderPool) -> None:
    lines: list[str] = []
    options = replace(OPTIONS, rollout_batch_size=1, deadline=0.3, progress_interval=0.05)
    source = PromptSource(dataset(3), 2)
    source.offset = 2
    with pytest.raises(RolloutError):
        asyncio.run(generate_rollout(Stuck(Bigram()), source, grader, decode, options, 3, emit=lines.append))
    assert lines
    assert lines[0].startswith("rollout 3: 0/2 samples, 0 tokens, ")
