"""Megatron's configuration of a model: from the dimensions of its checkpoint and the layout of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

from slime.megatron.fp8 import Fp8Settings
from slime.megatron.parallel import LayoutError, ParallelSettings
from slime.weights.dimensions import Experts, HFModelConfig, Latent, Linear, Rope, Sparse


@dataclass(frozen=True)
class Recompute:
    """Only the inputs of blocks of `layers` layers are kept; `method` as --recompute-method."""

    method: str = "uniform"
    layers: int = 1


@dataclass(frozen=True)
class ComputeSettings:
    """How the model computes.

    Attributes:
        dtype: of weights and activations.
        recompute: compute layers again in the backward pass; None = keep their activations.
        fused: join the MLP's activation with its product, and what is added to the residual with it, by torch.compile.
        fp8: round the operands of linear layers to FP8; None = do not.
    """

    dtype: torch.dtype = torch.float32
    softmax_in_fp32: bool = True
    recompute: Recompute | None = None
    fused: bool = False
    fp8: Fp8Settings | None = None


def transformer_config(
    config: HFModelConfig, parallel: ParallelSettings, compute: ComputeSettings
) -> TransformerConfig:
    """Megatron's configuration.

    Fusions that need Transformer Engine or Apex are off; the plain operations give the same numbers on every device.

    Raises:
        LayoutError: sizes that Megatron would train wrongly, without a word.
    """
    values = {
        **_common(config),
        **_parallel(parallel),
        **_compute(compute),
        **(_experts(config.experts, config.layers) if config.experts else {}),
        **(_linear(config.linear, config.layers) if config.linear else {}),
    }
    _check_sizes(config, parallel)
    settings = _made(config, values)
    settings.contiguous_context = parallel.contiguous_context  # no field of Megatron's; see `slime.megatron.ranks`
    return settings


def _made(config: HFModelConfig, values: dict[str, Any]) -> TransformerConfig:
    if config.latent is None:
        return TransformerConfig(**values)
    values |= _latent(config.latent, config.rope)
    if config.sparse is None:
        return MLATransformerConfig(**values)
    settings = MLATransformerConfig(**values, **_sparse(config.sparse))
    # Makes Megatron hand the indexer's inputs to `SparseAttention`. Set afterwards: the constructor refuses context
    # parallelism with it, which its own sparse attention does not know, and ours does.
    settings.experimental_attention_variant = "dsa"
    return settings


def _common(config: HFModelConfig) -> dict[str, Any]:
    return {
        "num_layers": config.layers,
        "mtp_num_layers": config.mtp or None,
        "hidden_size": config.hidden,
        "ffn_hidden_size": config.ffn,
        "num_attention_heads": config.heads,
        "num_query_groups": config.groups,
        "kv_channels": config.head_dim,
        "normalization": "RMSNorm",
        "layernorm_epsilon": config.norm_eps,
        "gated_linear_unit": True,
        "activation_func": torch.nn.functional.silu,
        "add_bias_linear": False,
        "add_qkv_bias": config.qkv_bias,
        "qk_layernorm": config.qk_norm,
        "attention_output_gate": config.output_gate,
        "rotary_interleaved": config.rope.interleaved,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    }


def _parallel(parallel: ParallelSettings) -> dict[str, Any]:
    return {
        "tensor_model_parallel_size": parallel.tensor,
        "pipeline_model_parallel_size": parallel.pipeline,
        "virtual_pipeline_model_parallel_size": parallel.virtual,
        "microbatch_group_size_per_vp_stage": parallel.virtual_group,
        "context_parallel_size": parallel.context,
        "expert_model_parallel_size": parallel.expert,
        "expert_tensor_parallel_size": parallel.expert_tensor,
        "sequence_parallel": parallel.sequence_parallel,
        "num_layers_in_first_pipeline_stage": parallel.first_stage_layers,
        "num_layers_in_last_pipeline_stage": parallel.last_stage_layers,
        "variable_seq_lengths": True,  # micro-batches have different numbers of tokens
        "moe_token_dispatcher_type": "alltoall",  # the default refuses that, with or without experts
    }


def _check_sizes(config: HFModelConfig, parallel: ParallelSettings) -> None:
    _check_virtual(config.layers, parallel)
    if config.vocab % parallel.tensor:
        raise LayoutError(
            f"a vocabulary of {config.vocab} does not divide over a tensor parallel size of {parallel.tensor}."
        )
    inner = parallel.tensor if parallel.expert_tensor is None else parallel.expert_tensor
    if config.experts is None:
        return
    if parallel.expert == 1 and inner != parallel.tensor:
        # Megatron-Core 0.16.1 then takes experts for dense weights when it reduces their gradients.
        raise LayoutError(
            f"expert tensor parallel size {inner} with tensor parallel size {parallel.tensor} and expert parallel size "
            "1: the ranks of one tensor-parallel group would train their experts apart. Make both sizes equal, or the "
            "expert parallel size at least 2."
        )
    if parallel.tensor > 1 and not parallel.sequence_parallel:
        raise LayoutError(
            f"experts with tensor parallel size {parallel.tensor} need sequence parallelism, without which every rank "
            "would compute every token's experts; add --sequence-parallel."
        )
    if config.experts.count % parallel.expert:
        raise LayoutError(
            f"{config.experts.count} experts do not divide over an expert parallel size of {parallel.expert}."
        )


def _check_virtual(layers: int, parallel: ParallelSettings) -> None:
    """Every rank has the same number of parts, and the parts of a rank have the same number of layers."""
    if parallel.virtual is None:
        return
    if parallel.pipeline < 2:
        raise LayoutError(f"{parallel.virtual} virtual stages on each rank need a pipeline of at least 2 ranks.")
    ends = [one for one in (parallel.first_stage_layers, parallel.last_stage_layers) if one is not None]
    between = parallel.pipeline - len(ends)
    shares = [(one, parallel.virtual) for one in ends]
    shares += [(layers - sum(ends), between * parallel.virtual)] if between else []
    for count, parts in shares:
        if count < parts or count % parts:
            raise LayoutError(
                f"{count} layers do not divide into {parts} parts of a pipeline of {parallel.pipeline} ranks with "
                f"{parallel.virtual} virtual stages each; leave the virtual stages out, or choose other sizes."
            )


def _compute(compute: ComputeSettings) -> dict[str, Any]:
    recompute: dict[str, Any] = {}
    if compute.recompute is not None:
        recompute = {
            "recompute_granularity": "full",
            "recompute_method": compute.recompute.method,
            "recompute_num_layers": compute.recompute.layers,
        }
    return {
        "attention_softmax_in_fp32": compute.softmax_in_fp32,
        "params_dtype": compute.dtype,
        "pipeline_dtype": compute.dtype,
        "bf16": compute.dtype is torch.bfloat16,
        "use_cpu_initialization": True,
        "perform_initialization": False,  # every weight is loaded
        "gradient_accumulation_fusion": False,
        "masked_softmax_fusion": False,
        "bias_activation_fusion": compute.fused,
        "bias_dropout_fusion": compute.fused,
        "apply_rope_fusion": False,
        "persist_layer_norm": False,
        "cuda_graph_scope": [],  # no CUDA graphs; the default is deprecated and warns
        **recompute,
    }


def _experts(experts: Experts, layers: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "num_moe_experts": experts.count,
        "moe_layer_freq": [int(layer in experts.layers) for layer in range(layers)],
        "moe_router_topk": experts.chosen,
        "moe_ffn_hidden_size": experts.ffn,
        "moe_shared_expert_intermediate_size": experts.shared_ffn or None,
        "moe_shared_expert_gate": experts.gated_shared,
        "moe_router_dtype": "fp32",
        "moe_router_load_balancing_type": "none",
        "moe_grouped_gemm": False,
        "moe_permute_fusion": False,
    }
    if not experts.sigmoid:
        # The softmax over the chosen scores alone is the softmax over all of them, normalised.
        return {**values, "moe_router_score_function": "softmax", "moe_router_pre_softmax": not experts.normalised}
    values |= {
        "moe_router_score_function": "sigmoid",
        "moe_router_enable_expert_bias": True,
        "moe_router_bias_update_rate": 0.0,
        "moe_router_topk_scaling_factor": experts.scaling,
    }
    if experts.groups > 1:
        values |= {"moe_router_num_groups": experts.groups, "moe_router_group_topk": experts.chosen_groups}
    return values


def _linear(linear: Linear, layers: int) -> dict[str, Any]:
    return {
        "linear_attention_freq": [int(layer in linear.layers) for layer in range(layers)],
        "linear_conv_kernel_dim": linear.kernel,
        "linear_key_head_dim": linear.key_dim,
        "linear_value_head_dim": linear.value_dim,
        "linear_num_key_heads": linear.key_heads,
        "linear_num_value_heads": linear.value_heads,
    }


def _latent(latent: Latent, rope: Rope) -> dict[str, Any]:
    values: dict[str, Any] = {
        "multi_latent_attention": True,
        "q_lora_rank": latent.q_rank,
        "kv_lora_rank": latent.kv_rank,
        "qk_head_dim": latent.nope,
        "qk_pos_emb_head_dim": latent.rope,
        "v_head_dim": latent.value,
        "rotary_base": rope.theta,
        "rotary_percent": 1.0,
        "rope_type": "rope",
        # Without YaRN; the defaults are DeepSeek-V2's and would scale the scores.
        "rotary_scaling_factor": 1.0,
    }
    if rope.yarn is not None:
        values |= {
            "rope_type": "yarn",
            "rotary_scaling_factor": rope.yarn.factor,
            "original_max_position_embeddings": rope.yarn.original_positions,
            "beta_fast": rope.yarn.beta_fast,
            "beta_slow": rope.yarn.beta_slow,
            "mscale": rope.yarn.mscale,
            "mscale_all_dim": rope.yarn.mscale_all_dim,
        }
    return values


def _sparse(sparse: Sparse) -> dict[str, Any]:
    return {
        "dsa_indexer_n_heads": sparse.heads,
        "dsa_indexer_head_dim": sparse.head_dim,
        "dsa_indexer_topk": sparse.topk,
        "dsa_indexer_loss_coeff": 0.0,
        # A checkpoint stores each layer for itself: some have an indexer, some have none. (The name is Megatron's.)
        "hetereogenous_dist_checkpoint": True,
    }
