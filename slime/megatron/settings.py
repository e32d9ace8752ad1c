"""From the flags of a run to the settings of the trainer's parts."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch

from slime.algorithms.advantages import Estimator
from slime.algorithms.corrections import Correction
from slime.algorithms.kl import KLEstimator
from slime.algorithms.mismatch import Level, MismatchOptions, Mode
from slime.algorithms.objective import PolicyForm, PolicyOptions
from slime.config import Config
from slime.config.groups.algorithm import DR_GRPO_NAMES, ICEPOP_NAMES, MIS_NAMES
from slime.config.import_paths import is_named
from slime.config.layout import virtual_stages
from slime.megatron.custom import load_custom
from slime.megatron.estimate import EstimatorOptions
from slime.megatron.fp8 import Format, Fp8Settings, Recipe
from slime.megatron.model_settings import ComputeSettings, Recompute
from slime.megatron.objective import LossType, ObjectiveSettings
from slime.megatron.optimizer import OptimizerSettings
from slime.megatron.parallel import ParallelSettings


def compute_settings(config: Config, dtype: torch.dtype) -> ComputeSettings:
    """How the model computes: --attention-softmax-in-fp32, and what --recompute-* and --fp8-* say."""
    recompute = None
    if config.recompute_granularity == "full":
        recompute = Recompute(config.recompute_method or "uniform", config.recompute_num_layers or 1)
    fp8 = None
    if config.fp8_format is not None:
        recipe, kind = cast(Recipe, config.fp8_recipe), cast(Format, config.fp8_format)
        fp8 = Fp8Settings(recipe, kind, config.first_last_layers_bf16)
    return ComputeSettings(dtype, config.attention_softmax_in_fp32, recompute, fp8=fp8)


def parallel_settings(config: Config, layers: int) -> ParallelSettings:
    """Sizes of the parallel groups, for a model of so many layers."""
    virtual = virtual_stages(config, layers)
    return ParallelSettings(
        tensor=config.tensor_model_parallel_size,
        pipeline=config.pipeline_model_parallel_size,
        context=config.context_parallel_size,
        contiguous_context=config.allgather_cp,
        expert=config.expert_model_parallel_size,
        expert_tensor=config.expert_tensor_parallel_size,
        sequence_parallel=config.sequence_parallel and config.tensor_model_parallel_size > 1,
        first_stage_layers=config.decoder_first_pipeline_num_layers,
        last_stage_layers=config.decoder_last_pipeline_num_layers,
        virtual=virtual if virtual > 1 else None,
        virtual_group=config.micro_batch_group if virtual > 1 else None,
    )


def optimizer_settings(config: Config) -> OptimizerSettings:
    """Adam, the schedule of its rate and weight decay, and where its state lies. Steps are those of the whole run."""
    decays = config.lr_decay_style != "constant"
    steps = config.lr_decay_iters or config.train_iters
    fraction, start = config.lr_warmup_fraction, config.start_weight_decay
    return OptimizerSettings(
        lr=config.lr,
        min_lr=config.min_lr,
        lr_warmup_iters=config.lr_warmup_iters if fraction is None else fraction * steps,
        lr_warmup_init=config.lr_warmup_init,
        lr_decay_iters=steps if decays else None,
        lr_decay_style=config.lr_decay_style,
        weight_decay=config.weight_decay if start is None else start,
        end_weight_decay=config.end_weight_decay,
        weight_decay_incr_iters=config.train_iters if config.weight_decay_incr_style != "constant" else 0,
        weight_decay_incr_style=config.weight_decay_incr_style,
        adam_beta1=config.adam_beta1,
        adam_beta2=config.adam_beta2,
        adam_eps=config.adam_eps,
        clip_grad=config.clip_grad,
        use_distributed_optimizer=config.use_distributed_optimizer,
        optimizer_cpu_offload=config.optimizer_cpu_offload,
        optimizer_offload_fraction=config.optimizer_offload_fraction,
        overlap_cpu_optimizer_d2h_h2d=config.overlap_cpu_optimizer_d2h_h2d,
    )


def critic_optimizer_settings(config: Config) -> OptimizerSettings:
    """The policy's, with --critic-lr and --critic-lr-warmup-iters where they are given."""
    warmup = config.critic_lr_warmup_iters
    return replace(
        optimizer_settings(config),
        lr=config.lr if config.critic_lr is None else config.critic_lr,
        lr_warmup_iters=config.lr_warmup_iters if warmup is None else warmup,
    )


def estimator_options(config: Config) -> EstimatorOptions:
    """How rewards become advantages of tokens: --advantage-estimator and what belongs to it."""
    return EstimatorOptions(
        advantage_estimator=cast(Estimator, config.advantage_estimator),
        gamma=config.gamma,
        lambd=config.lambd,
        kl_coef=config.kl_coef,
        kl_loss_type=cast(KLEstimator, config.kl_loss_type),
        normalize_advantages=config.normalize_advantages,
        opd_kl_coef=config.opd_kl_coef if config.use_opd else None,
    )


def objective_settings(config: Config) -> ObjectiveSettings:
    """The loss: form, clip widths, corrections, KL and entropy terms, averaging."""
    custom = load_custom(config)
    options = PolicyOptions(
        form=_form(config),
        eps_clip=config.eps_clip,
        eps_clip_high=config.eps_clip_high,
        eps_clip_c=config.eps_clip_c,
        correction=_correction(config),
        correction_low=config.tis_clip_low,
        correction_high=config.tis_clip,
        mismatch=_mismatch(config),
        correction_applied=config.use_tis,
        custom_correction=custom.correction,
        opsm_delta=config.opsm_delta if config.use_opsm else None,
        score_centering=config.use_score_centering,
        entropy_coef=config.entropy_coef,
        kl_loss_coef=config.kl_loss_coef if config.use_kl_loss else 0.0,
        kl_loss_type=cast(KLEstimator, config.kl_loss_type),
        unbiased_kl=config.use_unbiased_kl,
    )
    return ObjectiveSettings(
        options,
        loss_type=cast(LossType, config.loss_type),
        temperature=config.rollout_temperature,
        per_token=config.calculate_per_token_loss,
        constant_length=(
            config.rollout_max_response_len
            if is_named(config.custom_pg_loss_reducer_function_path, DR_GRPO_NAMES)
            else None
        ),
        value_clip=config.value_clip,
        custom=custom,
        mtp_loss_scaling_factor=config.mtp_loss_scaling_factor if config.enable_mtp_training else 0.0,
        log_probs_chunk=config.log_probs_chunk_size if config.log_probs_chunk_size > 0 else None,
        recompute=config.recompute_loss_function,
    )


def _form(config: Config) -> PolicyForm:
    """--pg-loss-type if given; else score centering's REINFORCE, else the estimator's own loss."""
    if config.pg_loss_type == "reinforce" or (config.pg_loss_type is None and config.use_score_centering):
        return "reinforce"
    if config.advantage_estimator in ("gspo", "cispo"):
        return cast(PolicyForm, config.advantage_estimator)
    return "clip"


def _correction(config: Config) -> Correction:
    """--use-tis, or what its function is replaced by. MIS and functions of the user's have options of their own."""
    if not (config.use_tis or config.get_mismatch_metrics):
        return "none"
    if config.custom_tis_function_path is None:
        return "tis"
    return "icepop" if is_named(config.custom_tis_function_path, ICEPOP_NAMES) else "none"


def _mismatch(config: Config) -> MismatchOptions | None:
    asked = config.use_tis or config.get_mismatch_metrics
    if not (asked and is_named(config.custom_tis_function_path, MIS_NAMES)):
        return None
    return MismatchOptions(
        tis_level=cast(Level, config.tis_level),
        tis_mode=cast(Mode, config.tis_mode),
        tis_upper_bound=config.tis_upper_bound,
        tis_lower_bound=config.tis_lower_bound,
        use_rs=config.use_rs,
        rs_level=cast(Level, config.rs_level),
        rs_upper_bound=config.rs_upper_bound,
        rs_lower_bound=config.rs_lower_bound,
        rs_veto_threshold=config.rs_veto_threshold,
        tis_batch_normalize=config.tis_batch_normalize,
    )
