"""What follows from given values, and the numbers in messages. The rules have their tests in tests/preflight."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slime.config import Config, ConfigError
from slime.config.derive import derive
from slime.config.groups.algorithm import ICEPOP
from slime.config.validate.arithmetic import counted, nearest_divisors, nearest_multiples


def test_a_derived_prompt_limit_leaves_room_for_one_token(small: Callable[..., Config]) -> None:
    config = small(rollout_max_prompt_len=None, rollout_max_context_len=20)
    assert config.rollout_max_prompt_len == 19
    with pytest.raises(ConfigError, match="make 21, above --rollout-max-context-len 20"):
        small(rollout_max_prompt_len=None, rollout_max_context_len=20, rollout_max_response_len=20)


def test_derived_values(small: Callable[..., Config]) -> None:
    config = small(eps_clip=0.1, eval_max_response_len=12)
    assert config.rollout_num_gpus == 1
    assert config.global_batch_size == 32
    assert config.rollout_max_context_len == 28
    assert config.eps_clip_high == 0.1
    assert (config.eval_temperature, config.eval_top_p, config.eval_top_k) == (1.0, 1.0, -1)
    assert (config.eval_input_key, config.eval_label_key) == ("prompt", "label")
    assert (config.sglang_dtype, config.sglang_attention_backend) == ("float32", "torch_native")
    assert derive(Config(device="cuda", rollout_batch_size=8)).sglang_dtype == "bfloat16"
    assert small(actor_num_gpus_per_node=None).actor_num_gpus_per_node == 1
    assert small(actor_num_gpus_per_node=None).train_gpus == 1
    assert derive(Config(device="cuda", rollout_batch_size=8)).actor_num_gpus_per_node == 8
    assert small(num_steps_per_rollout=4).global_batch_size == 8
    assert small(global_batch_size=16).origins["global_batch_size"] == "call"


def test_derived_numbers(small: Callable[..., Config]) -> None:
    config = small(actor_num_gpus_per_node=2, global_batch_size=16)
    assert (config.train_gpus, config.data_parallel_size, config.num_engines) == (2, 2, 2)
    assert (config.samples_per_rollout, config.steps_per_rollout, config.train_iters) == (32, 2, 8)


def test_correction(small: Callable[..., Config]) -> None:
    assert small().correction == "none"
    assert small(use_tis=True).correction == "tis"
    assert small(use_tis=True, tis_clip_low=0.5, custom_tis_function_path=ICEPOP).correction == "icepop"


def test_unknown_fields_are_refused(small: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="unknown flag --rollout-batchsize"):
        small(rollout_batchsize=4)


def test_nearest_numbers() -> None:
    assert (counted(1, "round"), counted(4, "round")) == ("1 round", "4 rounds")
    assert nearest_multiples(10, 4) == "8 or 12"
    assert nearest_multiples(3, 4) == "4"
    assert nearest_divisors(64, 48) == "32 or 64"
    assert nearest_divisors(7, 3) == "1 or 7"
    assert nearest_divisors(8, 9) == "8"


def test_huge_numbers_are_answered_at_once() -> None:
    assert nearest_divisors(10**30 + 1, 7) == f"a divisor of {10**30 + 1}"
