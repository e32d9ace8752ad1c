"""What a flag sets in the system underneath: fields of Megatron-Core's configurations, of SGLang's ``ServerArgs``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slime.config.sglang_table import server_arguments, table_version

SGLANG_PREFIX = "--sglang-"

# The dataclasses of megatron-core 0.16.1 that the fields belong to: ModelParallelConfig's are inherited by
# TransformerConfig.
_T, _O, _D = "TransformerConfig", "OptimizerConfig", "DistributedDataParallelConfig"

MEGATRON_FIELDS: Mapping[str, tuple[str, ...]] = {
    # parallel sizes
    "--tensor-model-parallel-size": (f"{_T}.tensor_model_parallel_size",),
    "--pipeline-model-parallel-size": (f"{_T}.pipeline_model_parallel_size",),
    "--num-layers-per-virtual-pipeline-stage": (f"{_T}.virtual_pipeline_model_parallel_size",),
    "--num-virtual-stages-per-pipeline-rank": (f"{_T}.virtual_pipeline_model_parallel_size",),
    "--microbatch-group-size-per-virtual-pipeline-stage": (f"{_T}.microbatch_group_size_per_vp_stage",),
    "--context-parallel-size": (f"{_T}.context_parallel_size",),
    "--expert-model-parallel-size": (f"{_T}.expert_model_parallel_size",),
    "--expert-tensor-parallel-size": (f"{_T}.expert_tensor_parallel_size",),
    "--sequence-parallel": (f"{_T}.sequence_parallel",),
    "--decoder-first-pipeline-num-layers": (f"{_T}.num_layers_in_first_pipeline_stage",),
    "--decoder-last-pipeline-num-layers": (f"{_T}.num_layers_in_last_pipeline_stage",),
    # experts
    "--moe-token-dispatcher-type": (f"{_T}.moe_token_dispatcher_type",),
    "--moe-enable-deepep": (f"{_T}.moe_enable_deepep",),
    "--moe-router-load-balancing-type": (f"{_T}.moe_router_load_balancing_type",),
    "--moe-aux-loss-coeff": (f"{_T}.moe_aux_loss_coeff",),
    "--moe-z-loss-coeff": (f"{_T}.moe_z_loss_coeff",),
    "--moe-router-bias-update-rate": (f"{_T}.moe_router_bias_update_rate",),
    "--moe-router-dtype": (f"{_T}.moe_router_dtype",),
    "--moe-grouped-gemm": (f"{_T}.moe_grouped_gemm",),
    "--moe-permute-fusion": (f"{_T}.moe_permute_fusion",),
    "--moe-shared-expert-overlap": (f"{_T}.moe_shared_expert_overlap",),
    "--moe-router-force-load-balancing": (f"{_T}.moe_router_force_load_balancing",),
    "--moe-token-drop-policy": (f"{_T}.moe_token_drop_policy",),
    "--moe-expert-capacity-factor": (f"{_T}.moe_expert_capacity_factor",),
    # numerics
    "--attention-dropout": (f"{_T}.attention_dropout",),
    "--hidden-dropout": (f"{_T}.hidden_dropout",),
    "--attention-softmax-in-fp32": (f"{_T}.attention_softmax_in_fp32",),
    "--accumulate-allreduce-grads-in-fp32": (f"{_D}.grad_reduce_in_fp32",),
    "--attention-backend": (f"{_T}.attention_backend",),
    "--bf16": (f"{_T}.bf16", f"{_O}.bf16"),
    "--fp16": (f"{_T}.fp16", f"{_O}.fp16"),
    "--fp8-param-gather": (f"{_T}.fp8_param", f"{_D}.fp8_param_gather"),
    "--loss-scale": (f"{_O}.loss_scale",),
    "--initial-loss-scale": (f"{_O}.initial_loss_scale",),
    "--min-loss-scale": (f"{_O}.min_loss_scale",),
    "--loss-scale-window": (f"{_O}.loss_scale_window",),
    "--hysteresis": (f"{_O}.hysteresis",),
    "--fp32-residual-connection": (f"{_T}.fp32_residual_connection",),
    "--recompute-granularity": (f"{_T}.recompute_granularity",),
    "--recompute-method": (f"{_T}.recompute_method",),
    "--recompute-num-layers": (f"{_T}.recompute_num_layers",),
    "--mtp-num-layers": (f"{_T}.mtp_num_layers",),
    "--mtp-loss-scaling-factor": (f"{_T}.mtp_loss_scaling_factor",),
    "--deterministic-mode": (f"{_T}.deterministic_mode",),
    # kernels
    "--overlap-grad-reduce": (f"{_D}.overlap_grad_reduce",),
    "--overlap-param-gather": (f"{_O}.overlap_param_gather", f"{_D}.overlap_param_gather"),
    "--tp-comm-overlap": (f"{_T}.tp_comm_overlap",),
    "--cp-comm-type": (f"{_T}.cp_comm_type",),
    "--gradient-accumulation-fusion": (f"{_T}.gradient_accumulation_fusion",),
    "--masked-softmax-fusion": (f"{_T}.masked_softmax_fusion",),
    "--rope-fusion": (f"{_T}.apply_rope_fusion",),
    "--check-for-nan-in-loss-and-grad": (f"{_D}.check_for_nan_in_grad",),
    "--recompute-modules": (f"{_T}.recompute_modules",),
    "--distribute-saved-activations": (f"{_T}.distribute_saved_activations",),
    "--disable-bf16-reduced-precision-matmul": (f"{_T}.disable_bf16_reduced_precision_matmul",),
    "--batch-invariant-mode": (f"{_T}.batch_invariant_mode",),
    "--transformer-impl": (f"{_T}.transformer_impl",),
    # optimizer
    "--optimizer": (f"{_O}.optimizer",),
    "--lr": (f"{_O}.lr",),
    "--min-lr": (f"{_O}.min_lr",),
    "--weight-decay": (f"{_O}.weight_decay",),
    "--adam-beta1": (f"{_O}.adam_beta1",),
    "--adam-beta2": (f"{_O}.adam_beta2",),
    "--adam-eps": (f"{_O}.adam_eps",),
    "--clip-grad": (f"{_O}.clip_grad",),
    "--main-grads-dtype": (f"{_O}.main_grads_dtype",),
    "--main-params-dtype": (f"{_O}.main_params_dtype",),
    "--exp-avg-dtype": (f"{_O}.exp_avg_dtype",),
    "--exp-avg-sq-dtype": (f"{_O}.exp_avg_sq_dtype",),
    "--use-distributed-optimizer": (f"{_O}.use_distributed_optimizer", f"{_D}.use_distributed_optimizer"),
    # the schedule of learning rate and weight decay
    "--lr-warmup-iters": ("OptimizerParamScheduler.lr_warmup_steps",),
    "--lr-warmup-fraction": ("OptimizerParamScheduler.lr_warmup_steps",),
    "--lr-warmup-init": ("OptimizerParamScheduler.init_lr",),
    "--lr-decay-iters": ("OptimizerParamScheduler.lr_decay_steps",),
    "--lr-decay-style": ("OptimizerParamScheduler.lr_decay_style",),
    "--start-weight-decay": ("OptimizerParamScheduler.start_wd",),
    "--end-weight-decay": ("OptimizerParamScheduler.end_wd",),
    "--weight-decay-incr-style": ("OptimizerParamScheduler.wd_incr_style",),
}

# Flags with Megatron's names that are no field of its core: the runtime's own code acts on them.
NO_MEGATRON_FIELD = frozenset({
    "--global-batch-size", "--micro-batch-size", "--seed", "--ckpt-step", "--async-save", "--no-save-optim",
    "--no-load-optim", "--no-load-rng", "--finetune", "--tensorboard-dir", "--distributed-timeout-minutes",
    "--optimizer-cpu-offload", "--optimizer-offload-fraction", "--overlap-cpu-optimizer-d2h-h2d",
    "--use-precision-aware-optimizer", "--fp8-format", "--fp8-recipe", "--first-last-layers-bf16",
})  # fmt: skip


@dataclass(frozen=True)
class Underneath:
    """What the system underneath says about a flag.

    ``sets`` names its fields, ``default`` is the value that it takes when the flag is not given, ``choices`` its legal
    values, ``since`` the version that was read. All are empty for a flag that is the runtime's own.
    """

    sets: tuple[str, ...] = ()
    default: Any = None
    choices: tuple[str, ...] | None = None
    since: str | None = None


def underneath(name: str, source: str) -> Underneath:
    """Look a flag up; ``source`` is that of its declaration. Raises KeyError for an argument that SGLang lacks."""
    if source == "sglang":
        one = server_arguments()[name.removeprefix(SGLANG_PREFIX)]
        return Underneath((f"ServerArgs.{one.field}",), one.default, one.choices, table_version())
    return Underneath(MEGATRON_FIELDS.get(name, ()))
