"""A round, over a real sampler and the real graders: what comes out, and what happens when something gives way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slime.data.sample import Sample, Status
from slime.data.source import PromptSource
from slime.rewards.graders import grade
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.grading import RewardOptions

from .bigram import EOS, Bigram, BigramClient, decode, tokenize
from .harness import RUNNER, dataset, flat, round_of, tools


def test_samples_hold_what_the_model_sampled(grader: GraderPool) -> None:
    model = Bigram()
    output = round_of(tools(BigramClient(model, "17"), grader))
    assert [len(group) for group in output.samples] == [4] * 6
    assert [sample.index for sample in flat(output)] == list(range(24))
    statuses = set()
    for sample in flat(output):
        response = sample.tokens[sample.prompt_length :]
        last = sample.tokens[sample.prompt_length - 1 : -1]
        assert sample.tokens[: sample.prompt_length] == tokenize(str(sample.prompt))
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
    assert output.metrics["rollout/generated_tokens"] == sum(s.response_length for s in flat(output))
    assert output.metrics["rollout/unused_token_ratio"] == 0
    assert output.metrics["rollout/refills"] == 1


def tokens(output: Any) -> list[list[int]]:
    return [sample.tokens for sample in flat(output)]


def test_a_rerun_samples_the_same_tokens_whatever_the_concurrency(grader: GraderPool) -> None:
    """With request seeds every single sample repeats, not only the group as a whole."""

    def run(concurrency: int, seed: int = 1) -> list[list[int]]:
        options = replace(RUNNER, concurrency=concurrency, rollout_seed=seed)
        return tokens(round_of(tools(BigramClient(Bigram()), grader, options)))

    assert run(1) == run(5) == run(1000)
    assert run(5) != run(5, seed=2)
    assert len({tuple(ids) for ids in run(5)}) > 12  # the samples of a prompt differ


def test_concurrency_is_a_limit(grader: GraderPool) -> None:
    client = BigramClient(Bigram())
    round_of(tools(client, grader))
    assert client.most_in_flight == 7


def test_the_context_limit_cuts_the_budget_and_names_what_does_not_fit(grader: GraderPool) -> None:
    output = round_of(tools(BigramClient(Bigram()), grader, replace(RUNNER, max_context_len=6)))
    assert max(len(sample.tokens) for sample in flat(output)) == 6
    source = PromptSource(dataset(), 4)
    with pytest.raises(RolloutError, match=r"the prompt has 4 tokens and --rollout-max-context-len is 4"):
        round_of(tools(BigramClient(Bigram()), grader, replace(RUNNER, max_context_len=4)), source)
    assert len(source.buffer) == 6


def test_banned_tokens_are_never_sampled(grader: GraderPool) -> None:
    sampling = SamplingParams(max_new_tokens=5, banned_token_ids=(1, 2, 3))
    output = round_of(tools(BigramClient(Bigram()), grader, replace(RUNNER, sampling=sampling)))
    sampled = {token for sample in flat(output) for token in sample.tokens[sample.prompt_length :]}
    assert sampled and not sampled & {1, 2, 3}


class AbortsFirst(BigramClient):
    """An engine that aborts the first request for each prompt, as one does while its weights change."""

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        is_first = tuple(input_ids) not in self.asked
        generation = await super().generate(input_ids, sampling, rid)
        return replace(generation, finish_reason="abort") if is_first else generation


def test_a_request_that_the_engine_aborts_is_made_again(grader: GraderPool) -> None:
    client = AbortsFirst(Bigram())
    output = round_of(tools(client, grader))
    assert len(output.samples) == 6
    assert set(client.asked.values()) == {4}  # counted from 0: five requests for four samples
    for sample in flat(output):
        sample.check()


def test_a_repeated_request_has_the_same_seed(grader: GraderPool) -> None:
    options = replace(RUNNER, rollout_seed=5)
    assert tokens(round_of(tools(AbortsFirst(Bigram()), grader, options))) == tokens(
        round_of(tools(BigramClient(Bigram()), grader, options))
    )


class AlwaysAborts(BigramClient):
    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        return replace(await super().generate(input_ids, sampling, rid), finish_reason="abort")


def test_an_engine_that_always_aborts_ends_the_run_and_loses_no_prompt(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)
    client = AlwaysAborts(Bigram())
    with pytest.raises(RolloutError, match=r"0 of 6 groups after 3 refills .* 13 aborted by the engine"):
        round_of(tools(client, grader, dynamic_sampling_max_rounds=3), source)
    assert 13 * 4 * 3 <= sum(client.asked.values()) + len(client.asked) <= 18 * 4 * 3  # three attempts a sample
    assert [group[0].group_index for group in source.buffer.groups] == list(range(18))
    assert all(len(s.tokens) == 4 and s.status is Status.PENDING for group in source.buffer.groups for s in group)


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
        round_of(tools(client, grader), source)
    assert client.in_flight == 0
    retried = round_of(tools(BigramClient(Bigram()), grader), source)
    assert [group[0].prompt for group in retried.samples] == [f"{i}+{i}=" for i in range(6)]
    assert [group[0].group_index for group in retried.samples] == list(range(6))


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
        round_of(tools(client, grader))


def test_grader_errors_leave_the_loss_and_too_many_stop_the_run(grader: GraderPool) -> None:
    data = dataset()
    data.prompts[0].metadata["answer_type"] = "no such type"
    client = BigramClient(Bigram())
    output = round_of(
        tools(client, grader, rewards=RewardOptions("math", max_grader_error_ratio=0.5)), PromptSource(data, 4)
    )
    failed = [sample for sample in output.samples[0] if sample.verdict == "grader-error"]
    assert failed
    assert all(sample.remove_sample and sample.mask() == [0] * sample.response_length for sample in failed)
    source = PromptSource(data, 4)
    with pytest.raises(RolloutError, match=r"the grader failed on \d of 4 samples \(limit 10%\).*no such type"):
        round_of(
            tools(client, grader, rewards=RewardOptions("math", max_grader_error_ratio=0.1), rollout_batch_size=1),
            source,
        )
    assert not source.buffer.groups[0][0].remove_sample


def cut(output: Any) -> list[Sample]:
    return [sample for sample in flat(output) if sample.status is Status.TRUNCATED]


def test_truncated_samples_are_graded_counted_wrong_or_masked(grader: GraderPool) -> None:
    """The grader `f1` gives some cut responses a score above 0, which "wrong" takes away and "mask" keeps."""

    def run(truncated: Any) -> Any:
        options = replace(RUNNER, rollout_seed=3, sampling=SamplingParams(max_new_tokens=2, temperature=2.0))
        data = dataset()
        for prompt in data.prompts:
            prompt.metadata["rm_type"] = "f1"
        rewards = RewardOptions("f1", truncated_samples=truncated)
        return round_of(tools(BigramClient(Bigram()), grader, options, rewards), PromptSource(data, 4))

    graded, wrong, masked = run("grade"), run("wrong"), run("mask")
    assert any(sample.reward for sample in cut(graded))
    assert not any(sample.remove_sample for sample in flat(graded))
    assert {sample.reward for sample in cut(wrong)} == {0.0}
    assert {sample.verdict_reason for sample in cut(wrong)} == {"cut at its length limit (--truncated-samples wrong)"}
    assert [sample.reward for sample in flat(masked)] == [sample.reward for sample in flat(graded)]
    assert [s.remove_sample for s in flat(masked)] == [s.status is Status.TRUNCATED for s in flat(masked)]
    finished = [sample.reward for sample in flat(graded) if sample.status is Status.COMPLETED]
    assert finished == [sample.reward for sample in flat(wrong) if sample.status is Status.COMPLETED]
