"""The sample contract: each broken field is named with its numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slime.data.sample import Sample, SampleError, Status

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
        ({"tokens": [5, 6, 7, 8, -1]}, "tokens contains -1"),
        ({"tokens": [5, 6, 7, 8, 2.0]}, "tokens contains 2.0"),
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
    with pytest.raises(SampleError, match="status 'done' is unknown; it must be one of: pending"):
        Sample.from_dict({"status": "done"})
