"""The sample contract: each broken field is named with its numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from slime.data.sample import PrefixCacheInfo, Sample, SampleError, SpecInfo, Status

GOOD = Sample(
    group_index=2, index=17, rollout_id=17, prompt="1+1=", tokens=[5, 6, 7, 8, 2], prompt_length=3, response="2",
    response_length=2, label="2", reward=1.0, rollout_log_probs=[-0.5, 0.0], weight_versions=["3"],
    status=Status.COMPLETED,
)  # fmt: skip


def test_a_good_sample_passes() -> None:
    GOOD.check()
    replace(GOOD, loss_mask=[1, 0], rollout_log_probs=None, status=Status.TRUNCATED).check()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss_mask": [1, 1, 1, 1, 1]}, "loss_mask has 5 entries for 2 response tokens"),
        ({"loss_mask": [1, 2]}, "loss_mask contains 2"),
        ({"loss_mask": [1, 0.5]}, "loss_mask contains 0.5"),
        ({"tokens": [5, 6, 7, 8]}, r"tokens has 4 ids; prompt_length 3 \+ response_length 2 = 5"),
        ({"tokens": [5, 6, 7, 8, -1]}, "tokens contains -1 at position 4"),
        ({"tokens": [5, 6, 7, 8, 2.0]}, "tokens contains 2.0 at position 4"),
        ({"index": 17, "group_index": 2, "rollout_id": -3}, "rollout_id is -3; it is a number from 0"),
        ({"teacher_log_probs": [-0.5]}, "teacher_log_probs has 1 entries for 2"),
        ({"non_generation_time": -1.0}, "non_generation_time is -1.0; it is in seconds"),
        ({"weight_versions": [3]}, "weight_versions contains 3; each entry is text"),
        ({"metadata": [1]}, "metadata is a list; it is a mapping"),
        ({"train_metadata": "x"}, "train_metadata is a str; it is a mapping"),
        ({"reward": {"score": 1.0}}, "reward is a mapping of 'score'; --reward-key names the one that trains"),
        ({"reward": "1.0"}, "reward is '1.0'; a graded sample carries a finite number"),
        ({"rollout_log_probs": [-0.5]}, "rollout_log_probs has 1 entries for 2"),
        ({"rollout_log_probs": [-0.5, float("nan")]}, r"rollout_log_probs\[1\] is nan"),
        ({"rollout_log_probs": [0.5, -0.1]}, r"rollout_log_probs\[0\] is 0.5"),
        ({"prompt_length": 0}, "prompt_length is 0"),
        ({"response_length": 0}, "response_length is 0"),
        ({"reward": None}, "reward is None"),
        ({"reward": float("inf")}, "reward is inf"),
        ({"weight_versions": []}, "weight_versions is empty"),
        ({"status": Status.ABORTED}, "status is aborted"),
        ({"status": "completed"}, "status is 'completed'"),
    ],
)
def test_each_broken_field_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SampleError, match=rf"sample 17 \(group 2\): {words}"):
        replace(GOOD, **change).check()


def ids(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"rollout_top_p_token_ids": ids(8, 2)},
            "rollout_top_p_token_offsets is missing; ids and offsets come together",
        ),
        (
            {"rollout_top_p_token_ids": ids(8, 2), "rollout_top_p_token_offsets": ids(0, 1)},
            r"rollout_top_p_token_offsets has shape \[2\]; it has response_length \+ 1 = 3 entries",
        ),
        (
            {"rollout_top_p_token_ids": ids(8, 2), "rollout_top_p_token_offsets": ids(0, 2, 1)},
            "rollout_top_p_token_offsets runs from 0 to 1; it rises from 0 to the 2 ids",
        ),
        (
            {"rollout_top_p_token_ids": ids(8, 5), "rollout_top_p_token_offsets": ids(0, 1, 2)},
            "rollout_top_p_token_ids lacks the sampled id 2 of response token 1",
        ),
        (
            {"rollout_topk_token_ids": np.zeros((2, 3), int), "rollout_topk_log_probs": np.zeros((2, 2))},
            r"rollout_topk_token_ids and its log-probs have shapes \[\[2, 3\], \[2, 2\]\]",
        ),
        (
            {"rollout_topk_token_ids": np.array([[1, 2], [3, 3]]), "rollout_topk_log_probs": np.full((2, 2), -1.0)},
            r"rollout_topk_token_ids\[1\] repeats an id",
        ),
        (
            {"rollout_topk_token_ids": np.array([[1, 2], [3, 4]]), "rollout_topk_log_probs": np.full((2, 2), -0.5)},
            r"rollout_topk_log_probs\[0\] has mass 1.2",
        ),
        (
            {"rollout_routed_experts": np.zeros((5, 2, 4), np.uint8)},
            r"rollout_routed_experts has shape \[5, 2, 4\]; it is \[tokens - 1 = 4, layers, top-k\]",
        ),
    ],
)
def test_captures_of_the_sampler_have_their_shape(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SampleError, match=rf"sample 17 \(group 2\): {words}"):
        replace(GOOD, **change).check()


CAPTURES = {
    "rollout_top_p_token_ids": ids(8, 3, 2),
    "rollout_top_p_token_offsets": ids(0, 2, 3),
    "rollout_topk_token_ids": np.array([[8, 1], [2, 1]], np.int32),
    "rollout_topk_log_probs": np.log(np.array([[0.6, 0.3], [0.9, 0.1]], np.float32)),
    "rollout_routed_experts": np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3),
}


def test_captures_survive_json_with_shape_and_type() -> None:
    captured = replace(GOOD, **CAPTURES)  # type: ignore[arg-type]
    captured.check()
    restored = Sample.from_dict(json.loads(json.dumps(captured.to_dict())))
    for name, values in CAPTURES.items():
        found = getattr(restored, name)
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype


@pytest.mark.parametrize(
    "saved",
    [
        [1, 2],
        {"dtype": "|O", "shape": [1], "base64": "AAAAAAAAAAA="},
        {"dtype": "<i4", "shape": [2], "base64": "AAAA"},
        {"dtype": "<i4", "shape": [-1], "base64": ""},
        {"dtype": "<i4", "shape": [1], "base64": "?"},
        {"dtype": "nothing", "shape": [0], "base64": ""},
    ],
)
def test_damaged_arrays_are_refused(saved: Any) -> None:
    with pytest.raises(SampleError, match="the saved sample 17 is damaged"):
        Sample.from_dict({**GOOD.to_dict(), "rollout_top_p_token_ids": saved})


def test_the_reward_is_a_number_or_chosen_from_a_mapping() -> None:
    assert GOOD.reward_value() == 1.0
    assert GOOD.reward_value("score") == 1.0  # a built-in grader's number needs no key
    chosen = replace(GOOD, reward={"score": 0.5, "acc": True})
    assert chosen.reward_value("score") == 0.5
    chosen.check(reward_key="score")
    with pytest.raises(SampleError, match=r"reward has no 'sccore' \(--reward-key\), it has 'score', 'acc'"):
        chosen.reward_value("sccore")


def test_turns_are_appended_with_masks_and_log_probs() -> None:
    one = Sample(index=1, tokens=[5, 6], prompt_length=2)
    one.append_response_tokens([7, 8], [-0.1, -0.2], text="ab", weight_version="3")
    assert (one.loss_mask, one.rollout_log_probs) == (None, [-0.1, -0.2])
    one.append_response_tokens([9], trainable=False, text="!")
    one.append_response_tokens([4], [-0.3], text="c", weight_version="4")
    assert one.tokens == [5, 6, 7, 8, 9, 4]
    assert (one.response, one.response_length) == ("ab!c", 4)
    assert one.loss_mask == [1, 1, 0, 1]
    assert one.rollout_log_probs == [-0.1, -0.2, 0.0, -0.3]
    assert one.weight_versions == ["3", "4"]
    one.status = Status.COMPLETED
    one.check(graded=False)


def test_what_cannot_be_appended() -> None:
    one = Sample(index=1, tokens=[5], prompt_length=1)
    with pytest.raises(SampleError, match="2 sampled tokens come with 1 log-probs; training needs one for each"):
        one.append_response_tokens([1, 2], [-0.1])
    with pytest.raises(SampleError, match="1 sampled tokens come with no log-probs"):
        one.append_response_tokens([1])
    with pytest.raises(SampleError, match="1 tokens that the model did not sample come with 1 log-probs"):
        one.append_response_tokens([1], [-0.1], trainable=False)
    bare = Sample(index=1, tokens=[5, 6], prompt_length=1, response_length=1)
    with pytest.raises(SampleError, match="the response has 1 tokens without rollout_log_probs"):
        bare.append_response_tokens([1], [-0.1])
    assert one.tokens == [5]


def test_counters_of_the_engine() -> None:
    spec = SpecInfo(spec_accept_token_num=6, spec_draft_token_num=8, spec_verify_ct=4, completion_token_num=10)
    cache = PrefixCacheInfo(cached_tokens=3, total_prompt_tokens=4)
    restored = Sample.from_dict(replace(GOOD, spec_info=spec, prefix_cache_info=cache).to_dict())
    assert (restored.spec_info, restored.prefix_cache_info) == (spec, cache)


def test_supervised_samples_need_no_weight_version() -> None:
    replace(GOOD, weight_versions=[], rollout_log_probs=None).check(generated=False)


def test_an_ungraded_sample_may_lack_its_reward() -> None:
    replace(GOOD, reward=None).check(graded=False)


def test_a_removed_sample_trains_no_token() -> None:
    assert replace(GOOD, remove_sample=True).mask() == [0, 0]
    assert replace(GOOD, remove_sample=True).effective_response_length() == 0
    assert GOOD.mask() == [1, 1]


def test_dict_round_trip_through_json() -> None:
    assert Sample.from_dict(json.loads(json.dumps(GOOD.to_dict()))) == GOOD


def test_unknown_field_names_the_nearest() -> None:
    with pytest.raises(SampleError, match="'rewrd'; the nearest is 'reward'"):
        Sample.from_dict({"rewrd": 1.0})
    with pytest.raises(SampleError, match="'multimodal_inputs'; images, audio and video are not run yet"):
        Sample.from_dict({"multimodal_inputs": {}})
    with pytest.raises(SampleError, match="status 'done' is unknown; it must be one of: pending"):
        Sample.from_dict({"status": "done"})
