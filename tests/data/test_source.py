"""The prompt stream: epochs, shuffling, the buffer, and a resume that repeats and skips nothing."""

from __future__ import annotations

import json
import random

import pytest

from slime.data.buffer import BufferFilter, Group, GroupBufferError, stalest_first
from slime.data.prompts import Prompt, PromptDataset
from slime.data.sample import Sample, Status
from slime.data.source import PromptSource, ResumeError


def source(count: int = 5, n: int = 2, seed: int = 42, shuffle: bool = True, fingerprint: str = "f") -> PromptSource:
    prompts = [Prompt(str(i), [i + 10], f"label {i}", {"row": i}) for i in range(count)]
    return PromptSource(PromptDataset(prompts, fingerprint), n, seed, shuffle)


def names(groups: list[list[Sample]]) -> list[str]:
    return [str(group[0].prompt) for group in groups]


def test_each_group_has_fresh_numbered_samples_of_one_prompt() -> None:
    first, second = source(n=3, shuffle=False).get_groups(2)
    assert [(s.group_index, s.index, s.rollout_id, s.prompt) for s in first + second] == [
        (0, 0, 0, "0"), (0, 1, 1, "0"), (0, 2, 2, "0"), (1, 3, 3, "1"), (1, 4, 4, "1"), (1, 5, 5, "1"),
    ]  # fmt: skip
    first[0].tokens.append(1)
    first[0].metadata["x"] = 1
    assert first[1].tokens == [10]
    assert first[1].metadata == {"row": 0}
    assert (first[1].prompt_length, first[1].label, first[1].status) == (1, "label 0", Status.PENDING)


def test_every_epoch_is_its_own_permutation_of_the_file() -> None:
    stream = source()
    for epoch in range(3):
        expected = list(range(5))
        random.Random(42 + epoch).shuffle(expected)
        assert names(stream.get_groups(5)) == [str(i) for i in expected]


def test_a_request_may_span_several_epochs() -> None:
    assert names(source(count=2, shuffle=False).get_groups(5)) == ["0", "1", "0", "1", "0"]


def test_buffered_groups_come_back_first_and_oldest_first() -> None:
    stream = source(shuffle=False)
    groups = stream.get_groups(3)
    stream.add_groups([groups[2], groups[0]])
    assert names(stream.get_groups(3)) == ["0", "2", "3"]
    with pytest.raises(GroupBufferError, match=r"group 1 has 1 samples; a group holds 2"):
        stream.add_groups([groups[1][:1]])


@pytest.mark.parametrize("stop", range(13))
def test_resume_continues_exactly(stop: int) -> None:
    whole = source()
    whole.get_groups(stop)
    whole.add_groups(whole.get_groups(1))
    resumed = source()
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    assert [[s.to_dict() for s in g] for g in resumed.get_groups(9)] == [
        [s.to_dict() for s in g] for g in whole.get_groups(9)
    ]


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (source(fingerprint="g"), "dataset 'f', this run has 'g'"),
        (source(seed=1), "rollout_seed 42, this run has 1"),
        (source(n=3), "n_samples_per_prompt 2"),
        (source(shuffle=False), "rollout_shuffle True"),
    ],
)
def test_resume_refuses_other_data(other: PromptSource, word: str) -> None:
    with pytest.raises(ResumeError, match=word):
        other.load_state_dict(source().state_dict())


def take(buffer: list[Group], count: int) -> list[Group]:
    taken, buffer[:] = buffer[:count], buffer[count:]
    return taken


def drop_all(buffer: list[Group], count: int) -> list[Group]:
    buffer.clear()
    return []


def filtered(buffer_filter: BufferFilter, count: int = 3) -> PromptSource:
    prompts = [Prompt(str(i), [i + 10], i, {}) for i in range(9)]
    stream = PromptSource(PromptDataset(prompts, "f"), 1, buffer_filter=buffer_filter)
    stream.add_groups(stream.get_groups(count))
    return stream


def test_a_filter_chooses_from_the_buffer_and_what_it_removes_is_gone() -> None:
    assert names(filtered(lambda buffer, count: [buffer.pop()]).get_groups(3)) == ["2", "3", "4"]
    stream = filtered(drop_all)
    assert names(stream.get_groups(2)) == ["3", "4"]
    assert (stream.buffer.dropped, len(stream.buffer)) == (3, 0)


def test_the_stalest_groups_come_first() -> None:
    stream = filtered(stalest_first)
    for group, versions in zip(stream.buffer.groups, (["7"], [], ["9", "3"]), strict=True):
        group[0].weight_versions = versions
    assert names(stream.get_groups(4)) == ["2", "0", "1", "3"]


@pytest.mark.parametrize(
    ("buffer_filter", "words"),
    [
        (lambda buffer, count: take(buffer, count + 1), "returned 3 groups; at most 2 were asked for"),
        (lambda buffer, count: buffer[:1], "returned group 0 and left it in the buffer"),
        (lambda buffer, count: [[Sample(group_index=5)]], "returned a group that was not in the buffer"),
        (lambda buffer, count: take(buffer, 1) * 2, "returned one group twice"),
    ],
)
def test_a_filter_that_breaks_its_contract(buffer_filter: BufferFilter, words: str) -> None:
    with pytest.raises(GroupBufferError, match=words):
        filtered(buffer_filter).get_groups(2)


def test_a_group_waits_once() -> None:
    stream = source(shuffle=False)
    groups = stream.get_groups(2)
    stream.add_groups(groups[:1])
    with pytest.raises(GroupBufferError, match="group 0 is in the buffer twice"):
        stream.add_groups(groups)
    assert len(stream.buffer) == 1
    with pytest.raises(GroupBufferError, match="a group without group_index cannot wait"):
        stream.add_groups([[Sample(), Sample()]])


def test_resume_refuses_what_is_no_state() -> None:
    with pytest.raises(ResumeError, match="version 9"):
        source().load_state_dict({"version": 9})
    with pytest.raises(ResumeError, match="offset is -1"):
        source().load_state_dict({**source().state_dict(), "offset": -1})
    with pytest.raises(ResumeError, match="offset is 6, the data set has 5 prompts"):
        source().load_state_dict({**source().state_dict(), "offset": 6})
    for buffer in (None, [3], [[{"rewrd": 1}]], [[{"tokens": [1]}]]):
        stream = source()
        stream.add_groups(stream.get_groups(1))
        with pytest.raises(ResumeError, match="buffer"):
            stream.load_state_dict({**source().state_dict(), "buffer": buffer})
        assert len(stream.buffer) == 1
