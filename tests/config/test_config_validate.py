"""Each rule has a configuration that it refuses, with its numbers, and a near one that it lets pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from slime.config import Config, ConfigError, Problem
from slime.config.derive import derive
from slime.config.groups.algorithm import ICEPOP
from slime.config.validate import RULES, algorithm, batch, files, placement, validate
from slime.config.validate.arithmetic import nearest_divisors, nearest_multiples
from slime.config.validate.placement import FULLY_ASYNC

Rule = Callable[[Config], Iterable[Problem]]

# A configuration as it is after derivation, written out; planned values may be put into it, as a Config is not parsed.
READY: dict[str, object] = {
    "hf_checkpoint": "hf", "ref_load": "torch_dist", "prompt_data": "train.jsonl", "label_key": "label", "rm_type":
    "math",
    "num_rollout": 4, "rollout_batch_size": 8, "n_samples_per_prompt": 8, "global_batch_size": 64,
    "rollout_max_response_len": 100, "rollout_max_prompt_len": 28, "rollout_max_context_len": 128,
    "actor_num_nodes": 1, "actor_num_gpus_per_node": 8, "rollout_num_gpus": 8, "eps_clip_high": 0.28,
    "eval_temperature": 1.0, "eval_top_p": 1.0, "eval_top_k": -1, "eval_max_response_len": 100,
    "eval_input_key": "prompt", "eval_label_key": "label",
}  # fmt: skip

KL = {"kl_coef": 0.1}
EXTERNAL = {"rollout_external_engine_addrs": ("h:1",)}
DELTA = {"update_weight_mode": "delta", "update_weight_transport": "disk", "update_weight_disk_dir": "d"}
# What runs on a GPU today.
ONE_GPU = {
    "device": "cuda", "recipe": "tiny", "colocate": True, "actor_num_gpus_per_node": 1, "rollout_num_gpus": 1,
    "sglang_attention_backend": "triton",
}  # fmt: skip

# rule, values that it refuses, parts of the message, values that it lets pass
CASES: list[tuple[Rule, dict[str, object], list[str], dict[str, object]]] = [
    (placement.validate_world, {"tensor_model_parallel_size": 3}, ["8 training GPUs", "3 x 1 x 1 = 3", "6 or 9"],
     {"tensor_model_parallel_size": 4}),
    (placement.validate_world, {"pipeline_model_parallel_size": 2, "expert_model_parallel_size": 8},
     ["ETP x EP x PP = 1 x 8 x 2 = 16", "16 training GPUs"],
     {"pipeline_model_parallel_size": 2, "expert_model_parallel_size": 4}),
    (placement.validate_engines,
     {"rollout_num_gpus": 6, "rollout_num_gpus_per_engine": 4}, ["6 serving GPUs", "4 or 8"],
     {"rollout_num_gpus_per_engine": 4}),
    (placement.validate_engines, {"rollout_num_gpus": 0}, ["starts no engine"], {"rollout_num_gpus": 0, **EXTERNAL}),
    (placement.validate_engines, {"colocate": True, "actor_num_gpus_per_node": 6, "rollout_num_gpus_per_engine": 4},
     ["engines of 4 GPUs do not tile the 6"], {"colocate": True, "rollout_num_gpus_per_engine": 4}),
    (placement.validate_modes, {"colocate": True, **EXTERNAL}, ["--rollout-external-engine-addrs and --colocate"],
     {**EXTERNAL}),
    (placement.validate_modes, {"sglang_config": "a.yaml", **EXTERNAL}, ["--sglang-config exclude"],
     {"sglang_config": "a.yaml"}),
    (placement.validate_modes, {"sglang_config": "a.yaml", "prefill_num_servers": 1}, ["--prefill-num-servers and"],
     {"prefill_num_servers": 1}),
    (placement.validate_modes, {"colocate": True, "rollout_function_path": FULLY_ASYNC}, ["fully async", "--colocate"],
     {"rollout_function_path": FULLY_ASYNC}),
    (placement.validate_modes, {"deterministic_mode": True, "rollout_function_path": FULLY_ASYNC},
     ["--deterministic-mode", "order of samples"], {"deterministic_mode": True}),
    (placement.validate_modes, {"colocate": True, "update_weight_mode": "delta"}, ["delta and --colocate"],
     {"update_weight_mode": "delta"}),
    (placement.validate_weight_transport, {"update_weight_transport": "disk"}, ["needs --update-weight-disk-dir"],
     {"update_weight_transport": "disk", "update_weight_disk_dir": "d"}),
    (placement.validate_weight_transport, {**DELTA}, ["--update-weight-local-checkpoint-dir"],
     {**DELTA, "update_weight_local_checkpoint_dir": "l"}),
    (placement.validate_weight_transport, {"update_weight_mode": "delta", "update_weight_local_checkpoint_dir": "l"},
     ["travels over disk alone"], {**DELTA, "update_weight_local_checkpoint_dir": "l"}),
    (placement.validate_device, {"attention_backend": "flash"}, ["GPU kernel", "auto, unfused or local"],
     {"attention_backend": "auto"}),
    (placement.validate_device, {**ONE_GPU, "recipe": None}, ["--recipe: not given", "--recipe tiny"], ONE_GPU),
    (placement.validate_device, {**ONE_GPU, "colocate": False}, ["--colocate: not given"], ONE_GPU),
    (placement.validate_device, {**ONE_GPU, "actor_num_gpus_per_node": 2}, ["2 GPUs", "--rollout-num-gpus 1"], ONE_GPU),
    (placement.validate_device, {**ONE_GPU, "rollout_num_gpus": 3}, ["3 GPUs"], ONE_GPU),
    (placement.validate_device, {**ONE_GPU, "attention_backend": "flash"}, ["flash", "PyTorch's"],
     {**ONE_GPU, "attention_backend": "local"}),
    (placement.validate_device, {**ONE_GPU, "sglang_attention_backend": None}, ["--sglang-attention-backend triton"],
     ONE_GPU),
    (placement.validate_device, {"sglang_attention_backend": "triton"}, ["needs a GPU", "give torch_native"],
     {"sglang_attention_backend": "torch_native"}),
    (placement.validate_device, {"sglang_cuda_graph_backend_decode": "full"}, ["decode full", "give disabled"],
     {"sglang_cuda_graph_backend_decode": "disabled"}),
    (batch.validate_global_batch, {"global_batch_size": 48}, ["8 prompts x 8 answers = 64", "16 would be dropped",
                                                              "32 or 64"], {"global_batch_size": 32}),
    (batch.validate_global_batch, {"global_batch_size": 128}, ["do not fill", "at most 64"], {"global_batch_size": 64}),
    (batch.validate_steps, {"num_steps_per_rollout": 3}, ["does not divide the 64 samples", "2 or 4"], {}),
    (batch.validate_steps, {"num_steps_per_rollout": 4}, ["makes steps of 16", "says 64"],
     {"num_steps_per_rollout": 4, "global_batch_size": 16}),
    (batch.validate_data_parallel, {"global_batch_size": 4}, ["4 does not divide among 8", "--global-batch-size 8"],
     {"global_batch_size": 8}),
    (batch.validate_data_parallel, {"micro_batch_size": 3}, ["3 does not divide the 8 samples of a rank", "2 or 4"],
     {"micro_batch_size": 4}),
    (batch.validate_dynamic_batch, {"use_dynamic_batch_size": True}, ["needs --max-tokens-per-gpu"],
     {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 128}),
    (batch.validate_dynamic_batch, {"max_tokens_per_gpu": 128}, ["has no effect"],
     {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 128}),
    (batch.validate_dynamic_batch, {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 127},
     ["up to 128 tokens", "x CP 1 = 127", "--max-tokens-per-gpu 128"],
     {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 64, "context_parallel_size": 2}),
    (batch.validate_dynamic_batch, {"balance_by_flops": True}, ["--balance-by-flops"],
     {"balance_by_flops": True, "use_dynamic_batch_size": True, "max_tokens_per_gpu": 128}),
    (batch.validate_lengths, {"rollout_max_response_len": 101},
     ["a prompt of 28 and a --rollout-max-response-len of 101", "make 129", "128", "at most 100"], {}),
    (batch.validate_lengths, {"eval_max_response_len": 200}, ["--eval-max-response-len of 200", "228"], {}),
    (batch.validate_lengths, {"sglang_context_length": 64}, ["--sglang-context-length 64 is below", "128"],
     {"sglang_context_length": 128}),
    (batch.validate_lengths, {"sglang_max_total_tokens": 100}, ["--sglang-max-total-tokens 100"],
     {"sglang_max_total_tokens": 128}),
    (batch.validate_over_sampling, {"over_sampling_batch_size": 7}, ["7 is below --rollout-batch-size 8"],
     {"over_sampling_batch_size": 8}),
    (algorithm.validate_group_size, {"n_samples_per_prompt": 1}, ["--n-samples-per-prompt 1", "at least 2"],
     {"n_samples_per_prompt": 2}),
    (algorithm.validate_group_size, {"n_samples_per_prompt": 1}, ["grpo"],
     {"n_samples_per_prompt": 1, "advantage_estimator": "reinforce_plus_plus"}),
    (algorithm.validate_clip, {"eps_clip": 0.3, "eps_clip_high": 0.28}, ["0.3 is above --eps-clip-high 0.28"],
     {"eps_clip": 0.28}),
    (algorithm.validate_clip, {"eps_clip": 1.0, "eps_clip_high": 4.0}, ["it would never clip"],
     {"eps_clip": 1.0, "eps_clip_high": 4.0, "advantage_estimator": "cispo"}),
    (algorithm.validate_clip, {"tis_clip_low": 2.0}, ["--tis-clip-low 2.0 is not below --tis-clip 2.0"],
     {"tis_clip_low": 0.5}),
    (algorithm.validate_corrections, {"custom_tis_function_path": ICEPOP}, ["add --use-tis"],
     {"custom_tis_function_path": ICEPOP, "use_tis": True}),
    (algorithm.validate_corrections, {"use_tis": True, "use_rollout_logprobs": True}, ["always 1"], {"use_tis": True}),
    (algorithm.validate_corrections, {"use_tis": True, "rollout_top_k": 50}, ["--use-tis", "--rollout-top-k 50"],
     {"rollout_top_k": 50}),
    (algorithm.validate_corrections, {"use_rollout_logprobs": True, "rollout_top_p": 0.9}, ["--rollout-top-p 0.9"],
     {"rollout_top_p": 0.9}),
    (algorithm.validate_corrections, {"mask_offpolicy_in_partial_rollout": True}, ["add --partial-rollout"],
     {"mask_offpolicy_in_partial_rollout": True, "partial_rollout": True}),
    (algorithm.validate_sampling, {"rollout_top_k": 0}, ["--rollout-top-k 0 leaves no token"], {"rollout_top_k": 1}),
    (algorithm.validate_sampling, {"eval_top_k": 0}, ["--eval-top-k 0"], {"eval_top_k": -1}),
    (algorithm.validate_kl, {**KL, "use_kl_loss": True, "kl_loss_coef": 0.1}, ["count the KL term twice"], {**KL}),
    (algorithm.validate_kl, {**KL, "ref_load": None}, ["give --ref-load"], {"ref_load": None}),
    (algorithm.validate_kl, {"use_kl_loss": True}, ["for a metric alone"], {"use_kl_loss": True, "kl_loss_coef": 0.1}),
    (algorithm.validate_estimator, {"advantage_estimator": "reinforce_plus_plus"}, ["--normalize-advantages"],
     {"advantage_estimator": "reinforce_plus_plus", "normalize_advantages": True}),
    (algorithm.validate_estimator, {"advantage_estimator": "gspo", "use_score_centering": True}, ["no form for"],
     {"advantage_estimator": "gspo"}),
    (algorithm.validate_dropout, {"attention_dropout": 0.1}, ["--attention-dropout 0.1", "0"], {}),
    (algorithm.validate_dropout, {"hidden_dropout": 0.1}, ["--hidden-dropout 0.1"], {}),
    (algorithm.validate_schedule, {"lr_warmup_iters": 4}, ["covers all 4 steps", "4 rounds x 1"],
     {"lr_warmup_iters": 3}),
    (files.validate_initial_weights, {"ref_load": None}, ["no weights to start from"], {"ref_load": None, "load": "l"}),
    (files.validate_save, {"save_interval": 2}, ["--save-interval 2 has no folder"], {"save_interval": 2, "save": "s"}),
    (files.validate_save, {"save": "./x/../torch_dist"}, ["is the folder of --ref-load"], {"save": "run"}),
    (files.validate_save, {"save": "hf"}, ["is the folder of --hf-checkpoint"], {"save": "run", "load": "run"}),
    (files.validate_outputs, {"metrics_file": "./x/../train.jsonl"},
     ["--metrics-file ./x/../train.jsonl is the file of --prompt-data"], {"metrics_file": "m.jsonl"}),
    (files.validate_outputs, {"metrics_file": "a.jsonl", "eval_prompt_data": ("a", "a.jsonl@[0:9]")},
     ["is the file of --eval-prompt-data a"], {"metrics_file": "a.jsonl@[0:9]", "eval_prompt_data": ("a", "a.jsonl")}),
    (files.validate_outputs, {"tensorboard_dir": "hf"}, ["--tensorboard-dir hf lies in the folder of --hf-checkpoint"],
     {"tensorboard_dir": "hfx"}),
    (files.validate_outputs, {"dry_run_json": "torch_dist/release/x.json"}, ["lies in the folder of --ref-load"],
     {"dry_run_json": "x.json"}),
    (files.validate_outputs, {"update_weight_disk_dir": "hf/w"}, ["--update-weight-disk-dir hf/w lies in"],
     {"save": "s", "load": "s", "update_weight_disk_dir": "s/w", "metrics_file": "s/m", "tensorboard_dir": "s/t"}),
    (files.validate_outputs, {"metrics_file": "x", "dry_run_json": "./x"}, ["is the path of --metrics-file too"],
     {"metrics_file": "x", "dry_run_json": "y"}),
    (files.validate_reward, {"rm_type": None}, ["nothing grades"], {"rm_type": None, "custom_rm_path": "a.b"}),
    (files.validate_reward, {"label_key": None}, ["--label-key does not name"], {}),
    (files.validate_evaluation, {"eval_prompt_data": ("a.jsonl",), "eval_interval": 1}, ["1 values are not pairs"],
     {"eval_prompt_data": ("a", "a.jsonl"), "eval_interval": 1}),
    (files.validate_evaluation, {"eval_prompt_data": ("a/b", "a.jsonl"), "eval_interval": 1}, ["'a/b' is no name"],
     {"eval_prompt_data": ("a-b", "a.jsonl"), "eval_interval": 1}),
    (files.validate_evaluation, {"eval_prompt_data": ("a", "x", "a", "y"), "eval_interval": 1}, ["names 'a' twice"],
     {"eval_prompt_data": ("a", "x", "b", "x"), "eval_interval": 1}),
    (files.validate_evaluation, {"eval_interval": 1}, ["nothing to evaluate"], {}),
    (files.validate_evaluation, {"eval_prompt_data": ("a", "x")}, ["is never evaluated"], {}),
    (files.validate_rounds, {"save_interval": 5}, ["--save-interval 5 is longer than the 4 rounds"],
     {"save_interval": 4}),
    (files.validate_dry_run, {"dry_run_json": "x"}, ["add --dry-run"], {"dry_run_json": "x", "dry_run": True}),
    (files.validate_rounds, {"eval_interval": 5}, ["--eval-interval 5"], {"eval_interval": 4}),
]  # fmt: skip


def test_the_ready_configuration_is_clean() -> None:
    assert validate(Config(**READY)) == []


@pytest.mark.parametrize(("rule", "bad", "parts", "good"), CASES)
def test_a_rule_refuses_and_lets_pass(
    rule: Rule, bad: dict[str, object], parts: list[str], good: dict[str, object]
) -> None:
    (problem,) = rule(Config(**{**READY, **bad}))
    text = f"{problem.message} {problem.hint}"
    for part in parts:
        assert part in text
    assert list(rule(Config(**{**READY, **good}))) == []


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, *_ in CASES} == set(RULES)


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
    assert nearest_multiples(10, 4) == "8 or 12"
    assert nearest_multiples(3, 4) == "4"
    assert nearest_divisors(64, 48) == "32 or 64"
    assert nearest_divisors(7, 3) == "1 or 7"
    assert nearest_divisors(8, 9) == "8"


def test_huge_numbers_are_answered_at_once() -> None:
    assert nearest_divisors(10**30 + 1, 7) == f"a divisor of {10**30 + 1}"
