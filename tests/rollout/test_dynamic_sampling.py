"""Over-sampling, filters, the cap on refills, and what happens to groups that are in flight when a round is full."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import replace
from typing import Any

import pytest

from slime.config import Config
from slime.data.sample import Sample, Status
from slime.data.source import PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.context import current
from slime.rollout.errors import RolloutError
from slime.rollout.filters import (
    DynamicFilterOutput,
    check_reward_nonzero_std,
    check_reward_nonzero_std_with_fallback,
)

from .bigram import EOS, Bigram, BigramClient, tokenize
from .harness import RUNNER, dataset, flat, round_of, tools

NONZERO_STD = "slime.rollout.filters.check_reward_nonzero_std"
SEEDED = replace(RUNNER, rollout_seed=11)
DROPPED: list[int] = []


def only_even(args: Any, samples: list[Sample]) -> DynamicFilterOutput:
    keep = (samples[0].group_index or 0) % 2 == 0
    return DynamicFilterOutput(keep, "odd")


def never(args: Any, samples: list[Sample]) -> bool:
    return False


def never_unless_short(args: Any, samples: list[Sample]) -> DynamicFilterOutput:
    return DynamicFilterOutput(False, "never", keep_when_insufficient=True)


def count_everything(args: Any, groups: list[list[Sample]], data_source: PromptSource) -> None:
    DROPPED.append(len(groups))


def mute_first(args: Any, groups: list[list[Sample]]) -> None:
    groups[0][0].remove_sample = True


def test_dropped_groups_are_replaced_and_counted(grader: GraderPool) -> None:
    DROPPED.clear()
    machinery = tools(
        BigramClient(Bigram()),
        grader,
        SEEDED,
        dynamic_sampling_filter_path=f"{__name__}.only_even",
        rollout_all_samples_process_path=f"{__name__}:count_everything",
        rollout_sample_filter_path=f"{__name__}:mute_first",
        over_sampling_batch_size=8,
    )
    output = round_of(machinery)
    assert [(group[0].group_index or 0) % 2 for group in output.samples] == [0] * 6
    metrics = output.metrics
    assert metrics["rollout/dynamic_filter/drop_odd"] == metrics["rollout/dynamic_filter/dropped_groups"] >= 4
    assert metrics["rollout/refills"] == 2
    assert DROPPED[0] >= 6 + metrics["rollout/dynamic_filter/dropped_groups"]
    assert output.samples[0][0].remove_sample and not output.samples[0][1].remove_sample


def test_a_filter_that_drops_everything_ends_the_run_with_its_reasons(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)
    machinery = tools(
        BigramClient(Bigram()),
        grader,
        dynamic_sampling_filter_path=f"{__name__}.only_even",
        rollout_batch_size=4,
        dynamic_sampling_max_rounds=1,
    )
    with pytest.raises(RolloutError, match=r"of 4 groups after 1 refills .*dropped by --dynamic-.* \(odd \d\)"):
        round_of(machinery, source)
    assert [group[0].group_index for group in source.buffer.groups] == [0, 1, 2, 3]


def test_a_fallback_fills_the_round_with_what_there_is(grader: GraderPool) -> None:
    machinery = tools(
        BigramClient(Bigram()),
        grader,
        dynamic_sampling_filter_path=f"{__name__}.never_unless_short",
        over_sampling_batch_size=8,
    )
    output = round_of(machinery)
    assert len(output.samples) == 6
    assert output.metrics["rollout/dynamic_filter/drop_never"] == 2
    assert output.metrics["rollout/refills"] == 1


def graded(*rewards: float, rollout_ids: tuple[int, ...] | None = None) -> list[Sample]:
    ids = rollout_ids or tuple(range(len(rewards)))
    return [Sample(rollout_id=i, reward=reward) for i, reward in zip(ids, rewards, strict=True)]


@pytest.mark.parametrize(
    ("samples", "keep", "reason"),
    [
        (graded(1, 0, 1), True, None),
        (graded(1, 1, 1), False, "zero_std_1.0"),
        (graded(0, 0), False, "zero_std_0.0"),
        (graded(0.25, 0.25), False, "zero_std_0.2"),
        (graded(1), False, "zero_std_1.0"),
        # Two trajectories; the first came in three pieces, which share its reward.
        (graded(1, 1, 1, 0, rollout_ids=(7, 7, 7, 8)), True, None),
        (graded(1, 1, 1, 1, rollout_ids=(7, 7, 7, 8)), False, "zero_std_1.0"),
    ],
)
def test_the_built_in_filters(samples: list[Sample], keep: bool, reason: str | None) -> None:
    config = Config()
    assert check_reward_nonzero_std(config, samples) == DynamicFilterOutput(keep, reason)
    fallback = check_reward_nonzero_std_with_fallback(config, samples)
    assert (fallback.keep, fallback.reason, fallback.keep_when_insufficient) == (keep, reason, not keep)


def test_every_group_of_a_filtered_round_teaches_something(grader: GraderPool) -> None:
    data = dataset()
    for prompt in data.prompts:
        prompt.metadata["rm_type"] = "f1"
    options = replace(SEEDED, sampling=SamplingParams(max_new_tokens=3, temperature=2.0))
    machinery = tools(
        BigramClient(Bigram()), grader, options, dynamic_sampling_filter_path=NONZERO_STD, rollout_batch_size=2
    )
    output = round_of(machinery, PromptSource(data, 8))
    for group in output.samples:
        assert statistics.stdev(float(sample.reward) for sample in group) > 0  # type: ignore[arg-type]


class Slow(BigramClient):
    """An engine that answers prompts about `slow` only once they are aborted, with what it has so far."""

    slow = (tokenize("1+1="), tokenize("3+3="))

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        if input_ids[:4] in self.slow and len(input_ids) == 4:
            generation = await super().generate(input_ids, replace(sampling, max_new_tokens=2), rid)
            if generation.finish_reason == "stop":
                return generation
            while rid not in self.aborted:
                await asyncio.sleep(0.002)
            return replace(generation, finish_reason="abort")
        return await super().generate(input_ids, sampling, rid)


def oversampled(grader: GraderPool, source: PromptSource, client: BigramClient, **flags: Any) -> Any:
    options = replace(SEEDED, concurrency=100)
    machinery = tools(client, grader, options, rollout_batch_size=4, over_sampling_batch_size=6, **flags)
    return round_of(machinery, source)


def test_without_partial_rollout_what_is_in_flight_is_dropped_and_counted(grader: GraderPool) -> None:
    source = PromptSource(dataset(), 4)
    output = oversampled(grader, source, Slow(Bigram(), "1"))
    assert [group[0].group_index for group in output.samples] == [0, 2, 4, 5]
    assert output.metrics["rollout/unused_groups"] == 2
    assert 0 < output.metrics["rollout/unused_token_ratio"] < 1
    assert len(source.buffer) == 0


@pytest.mark.parametrize("mask", [False, True])
def test_with_partial_rollout_the_next_round_continues_it(grader: GraderPool, mask: bool) -> None:
    source = PromptSource(dataset(), 4)
    flags = {"partial_rollout": True, "mask_offpolicy_in_partial_rollout": mask}
    oversampled(grader, source, Slow(Bigram(), "1"), **flags)
    waiting = {sample.index: list(sample.tokens) for group in source.buffer.groups for sample in group}
    statuses = {sample.index: sample.status for group in source.buffer.groups for sample in group}
    assert set(waiting) == {4, 5, 6, 7, 12, 13, 14, 15}
    assert Status.ABORTED in statuses.values()
    state = source.state_dict()
    resumed = PromptSource(dataset(), 4)
    resumed.load_state_dict(state)  # as after a restart in between

    output = oversampled(grader, resumed, BigramClient(Bigram(), "2"), **flags)
    assert {group[0].group_index for group in output.samples} >= {1, 3}
    for sample in flat(output):
        if sample.index not in waiting:
            continue
        before = waiting[sample.index]
        earlier = len(before) - 4
        assert sample.tokens[: len(before)] == before
        sample.check()
        assert len(sample.rollout_log_probs or ()) == sample.response_length <= 5
        if statuses[sample.index] is Status.ABORTED:
            assert sample.weight_versions == ["1", "2"]
            assert sample.metadata["start_rollout_id"] == 3
            expected = [0] * earlier + [1] * (sample.response_length - earlier) if mask else None
            assert sample.loss_mask == expected
        else:
            assert sample.weight_versions == ["1"] and before[-1] == EOS


async def begins_again(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    context = current()
    return context.append(sample, await context.generate(sample, sample.tokens, sampling_params))


async def goes_on(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    return await begins_again(args, sample, sampling_params)


goes_on.resumes = True  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "versions"), [("begins_again", ["2"]), ("goes_on", ["1", "2"])])
def test_a_generation_function_says_whether_it_can_go_on(grader: GraderPool, name: str, versions: list[str]) -> None:
    source = PromptSource(dataset(), 4)
    flags = {"partial_rollout": True, "custom_generate_function_path": f"{__name__}.{name}"}
    oversampled(grader, source, Slow(Bigram(), "1"), **flags)
    waiting = [sample for group in source.buffer.groups for sample in group]
    aborted = {sample.index for sample in waiting if sample.status is Status.ABORTED and sample.response_length}
    assert aborted
    output = oversampled(grader, source, BigramClient(Bigram(), "2"), **flags)
    continued = [sample for sample in flat(output) if sample.index in aborted]
    assert continued and all(sample.weight_versions == versions for sample in continued)
    for sample in continued:
        sample.check()


def test_whole_groups_beyond_the_round_are_kept_for_the_next(grader: GraderPool) -> None:
    """They are graded already and pass through the next round as they are."""
    source = PromptSource(dataset(), 4)
    first = oversampled(grader, source, BigramClient(Bigram(), "1"), partial_rollout=True)
    second_client = BigramClient(Bigram(), "2")
    second = oversampled(grader, source, second_client, partial_rollout=True)
    indices = [group[0].group_index for group in (*first.samples, *second.samples)]
    assert len(set(indices)) == 8
    assert sorted(indices)[:6] == list(range(6))  # nothing is lost
