"""Configurations that are right, to be made wrong one value at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slime.config import Config, make_config

# The smallest values that a run needs; paths are not read unless a test makes them.
SMALL: dict[str, object] = {
    "hf_checkpoint": "hf",
    "ref_load": "torch_dist",
    "prompt_data": "train.jsonl",
    "input_key": "prompt",
    "label_key": "label",
    "rm_type": "math",
    "num_rollout": 4,
    "rollout_batch_size": 8,
    "n_samples_per_prompt": 4,
    "rollout_max_response_len": 8,
    "rollout_max_prompt_len": 16,
    "actor_num_gpus_per_node": 1,
    "colocate": True,
}


@pytest.fixture
def small() -> Callable[..., Config]:
    """``small(lr=1.0)``: the small configuration with some values changed."""

    def build(**changes: object) -> Config:
        return make_config(**{**SMALL, **changes})

    return build
