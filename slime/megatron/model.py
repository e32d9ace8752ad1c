"""Megatron's GPT model from the dimensions of a Hugging Face checkpoint, and its weights in and out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor

from slime.weights.hf_config import HFModelConfig
from slime.weights.hf_io import HFCheckpoint
from slime.weights.names import canonical_name, check_hf_tensors, to_hf, to_megatron


def transformer_config(config: HFModelConfig, dtype: torch.dtype, softmax_in_fp32: bool = True) -> TransformerConfig:
    """Megatron's configuration of a dense model.

    Fusions are off: their kernels come with Transformer Engine, Apex or torch.compile, and the plain operations give
    the same numbers on every device.
    """
    return TransformerConfig(
        num_layers=config.layers,
        hidden_size=config.hidden,
        ffn_hidden_size=config.ffn,
        num_attention_heads=config.heads,
        num_query_groups=config.groups,
        kv_channels=config.head_dim,
        normalization="RMSNorm",
        layernorm_epsilon=config.norm_eps,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=config.qkv_bias,
        qk_layernorm=config.qk_norm,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        attention_softmax_in_fp32=softmax_in_fp32,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype is torch.bfloat16,
        use_cpu_initialization=True,
        perform_initialization=False,  # every weight is loaded
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        apply_rope_fusion=False,
        persist_layer_norm=False,
        cuda_graph_scope=[],  # no CUDA graphs; the default is deprecated and warns
    )


def build_model(
    config: HFModelConfig, device: torch.device, dtype: torch.dtype, softmax_in_fp32: bool = True
) -> GPTModel:
    """A model with unset weights on `device`; load some before use. Needs `slime.megatron.process.start`.

    Megatron's local layer spec, which needs nothing but torch, on every device.
    """
    model: GPTModel = GPTModel(
        config=transformer_config(config, dtype, softmax_in_fp32),
        transformer_layer_spec=get_gpt_layer_local_spec(qk_layernorm=config.qk_norm, normalization="RMSNorm"),
        vocab_size=config.vocab,
        max_sequence_length=config.max_positions,
        position_embedding_type="rope",
        rotary_base=config.rope_theta,
        share_embeddings_and_output_weights=config.tied_embeddings,
        parallel_output=True,
    )
    return model.to(device=device, dtype=dtype)


def load_hf_weights(model: torch.nn.Module, config: HFModelConfig, folder: Path) -> None:
    """Copy the weights of a Hugging Face checkpoint into `model` (bare or wrapped), converting the dtype.

    Raises:
        HFCheckpointError: the checkpoint is incomplete or damaged.
        WeightNameError: missing or surplus tensors, or wrong shapes.
    """
    checkpoint = HFCheckpoint(folder)
    check_hf_tensors(checkpoint.shapes, config, str(folder))
    parameters = {canonical_name(name): parameter for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for name, tensor in to_megatron(checkpoint.read, config):
            parameters[name].copy_(tensor)


def named_hf_tensors(model: torch.nn.Module, config: HFModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Every weight of `model` under its Hugging Face name, whole, contiguous, detached, on the model's device.

    Tensors that keep their layout share memory with the model: copy them before the next optimizer step changes them.
    """
    tensors: dict[str, Any] = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return to_hf(tensors, config)
