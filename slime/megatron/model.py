"""Megatron's GPT model of one rank, from the dimensions of a Hugging Face checkpoint, and its weights in and out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer.transformer_block import get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
from megatron.core.transformer.utils import ensure_metadata_has_dp_cp_group
from torch import Tensor, nn

from slime.megatron.fp8 import round_products
from slime.megatron.layers import block_spec, mtp_spec
from slime.megatron.model_settings import ComputeSettings, transformer_config
from slime.megatron.mtp import logits_ahead
from slime.megatron.parallel import ALONE, ParallelSettings
from slime.weights.dimensions import HFModelConfig
from slime.weights.hf_io import HFCheckpoint
from slime.weights.names import Place, canonical_name, check_hf_tensors, to_megatron
from slime.weights.tables import rules


class Decoder(GPTModel):
    """Both ends of a pipeline load a shared embedding from the checkpoint, so that they need not exchange it first.

    MTP layers run only for training, and leave their logits with the packed batch, see `slime.megatron.mtp`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.mtp_process and self.share_embeddings_and_output_weights and not self.pre_process:
            self.output_layer.weight = None  # Megatron multiplies by the embedding that stands beside the MTP layers

    def _is_in_embd_group(self) -> bool:
        return False

    def _postprocess(
        self,
        hidden_states: Tensor,
        input_ids: Tensor,
        position_ids: Tensor,
        packed_seq_params: PackedSeqParams,
        rotary_pos_emb: Tensor | None = None,
        **unused: Any,
    ) -> Tensor:
        """Logits [1, width, vocabulary of this rank]; a stage before the last returns its activations."""
        if not self.post_process:
            return hidden_states
        if self.mtp_process and torch.is_grad_enabled():
            packed_seq_params.logits_ahead = logits_ahead(
                self,
                hidden_states,
                packed_seq_params,
                input_ids=input_ids,
                position_ids=position_ids,
                attention_mask=None,
                rotary_pos_emb=rotary_pos_emb,
            )
        tied = self.share_embeddings_and_output_weights
        weight = self.shared_embedding_or_output_weight() if tied else None
        logits: Tensor = self.output_layer(hidden_states, weight=weight)[0]
        return logits.transpose(0, 1).contiguous()

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: tuple[Any, ...] = (), metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """As Megatron's, which looks for a process group in `metadata` beside MTP layers."""
        described = ensure_metadata_has_dp_cp_group(metadata)
        found: dict[str, Any] = super().sharded_state_dict(prefix, sharded_offsets, described)
        return found


class InterleavedDecoder(nn.Module):
    """The parts of a model on one rank of an interleaved pipeline; layers are counted on from part to part.

    Attributes:
        parts: in the order in which a micro-batch meets them.
        config: of all of them.
    """

    def __init__(self, parts: Sequence[Decoder]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.config: TransformerConfig = parts[0].config

    def sharded_state_dict(self) -> dict[str, Any]:
        """Of all parts; what is stored is named by the layers of the whole model."""
        return {
            f"parts.{number}.{key}": value
            for number, part in enumerate(self.parts)
            for key, value in part.sharded_state_dict().items()
        }


Model = Decoder | InterleavedDecoder


def parts_of(model: Model) -> list[Decoder]:
    """What a micro-batch meets on this rank, in its order."""
    return list(model.parts) if isinstance(model, InterleavedDecoder) else [model]


def build_model(
    config: HFModelConfig,
    device: torch.device,
    compute: ComputeSettings,
    parallel: ParallelSettings = ALONE,
) -> Model:
    """This rank's part of the model, with unset weights, on `device`. Needs `slime.megatron.process.start`.

    Made of Megatron's local modules, which need nothing but torch, on every device.
    """
    settings = transformer_config(config, parallel, compute)
    place = place_of(settings)
    parts = []
    for stage, layers in enumerate(_layers_of_parts(settings)):
        part = _build_part(config, settings, layers, stage if parallel.virtual else None)
        parts.append(_cast(part.to(device=device), compute.dtype))
    model = InterleavedDecoder(parts) if parallel.virtual else parts[0]
    _mark_cut(model, config, place)
    if compute.fp8 is not None:
        round_products(model, model_tensors(model), config, place, compute.fp8)
    return model


def _build_part(
    config: HFModelConfig, settings: TransformerConfig, layers: tuple[int, ...], stage: int | None
) -> Decoder:
    first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage)
    last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage)
    return Decoder(
        config=settings,
        transformer_layer_spec=block_spec(config, layers),
        vocab_size=config.vocab,
        max_sequence_length=config.max_positions,
        position_embedding_type="rope",
        rotary_base=config.rope.theta,
        rotary_percent=config.rope.fraction,
        rope_scaling=config.rope.llama3_factor is not None,
        rope_scaling_factor=config.rope.llama3_factor or 1.0,
        share_embeddings_and_output_weights=config.tied_embeddings,
        parallel_output=True,
        pre_process=first,
        post_process=last,
        mtp_block_spec=mtp_spec(config) if config.mtp and last else None,
        vp_stage=stage,
    )


def _layers_of_parts(settings: TransformerConfig) -> list[tuple[int, ...]]:
    """Zero-based layers of each part of the model on this rank."""
    stages = range(settings.virtual_pipeline_model_parallel_size or 0) or (None,)
    found = []
    for stage in stages:
        offset = get_transformer_layer_offset(settings, vp_stage=stage)
        found.append(tuple(range(offset, offset + get_num_layers_to_build(settings, vp_stage=stage))))
    return found


def _mark_cut(model: Model, config: HFModelConfig, place: Place) -> None:
    """Say of each parameter whether tensor-parallel ranks hold different parts of it.

    The norm of the gradient counts what all ranks hold alike once. Megatron says so where it initialises weights, and
    these are loaded.
    """
    tensors = model_tensors(model)
    table = [(place.local_name(rule, config), rule.axis) for rule in rules(config) if place.holds(rule, config)]
    for name, axis in [*table, ("output_layer.weight", 0)]:
        if axis is not None and name in tensors:
            tensors[name].tensor_model_parallel = True
            tensors[name].partition_dim = axis


def _cast(model: Decoder, dtype: torch.dtype) -> Decoder:
    """Weights in `dtype`; the router's correction bias stays float32, in which the choice of experts is made."""
    biases = {name: buffer.clone() for name, buffer in model.named_buffers() if name.endswith("router.expert_bias")}
    model = model.to(dtype=dtype)
    for name, bias in biases.items():
        model.get_submodule(name.rpartition(".")[0]).expert_bias = bias
    return model


def place_of(settings: TransformerConfig) -> Place:
    """What this rank holds, from Megatron's process groups."""
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    return Place(
        tensor=(
            parallel_state.get_tensor_model_parallel_rank(),
            parallel_state.get_tensor_model_parallel_world_size(),
        ),
        experts_tensor=(
            parallel_state.get_expert_tensor_parallel_rank(),
            parallel_state.get_expert_tensor_parallel_world_size(),
        ),
        experts=(
            parallel_state.get_expert_model_parallel_rank(),
            parallel_state.get_expert_model_parallel_world_size(),
        ),
        layers=tuple(layer for layers in _layers_of_parts(settings) for layer in layers),
        first=first,
        last=last,
    )


def model_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """Parameters and the routers' correction biases of `model` (bare or wrapped) under their canonical names."""
    if isinstance(model, InterleavedDecoder):
        found: dict[str, Tensor] = {}
        before = 0
        for part in parts_of(model):
            found |= {_counted_on(name, before): tensor for name, tensor in model_tensors(part).items()}
            before += len(part.decoder.layers)
        return found
    tensors = {canonical_name(name): parameter for name, parameter in model.named_parameters()}
    for name, buffer in model.named_buffers():
        if name.endswith("router.expert_bias"):
            tensors[canonical_name(name)] = buffer
    return tensors


def _counted_on(name: str, before: int) -> str:
    """The name of a decoder layer's tensor when `before` layers of earlier parts are counted first."""
    head, layer, rest = name.partition("decoder.layers.")
    if not layer:
        return name
    number, _, rest = rest.partition(".")
    return f"{head}{layer}{int(number) + before}.{rest}"


def load_hf_weights(model: Model, config: HFModelConfig, folder: Path) -> None:
    """Copy the weights of a Hugging Face checkpoint into `model`, this rank's part, converting the dtype.

    Raises:
        HFCheckpointError: the checkpoint is incomplete or damaged.
        WeightNameError: missing or surplus tensors, or wrong shapes.
    """
    checkpoint = HFCheckpoint(folder)
    check_hf_tensors(checkpoint.shapes, config, str(folder))
    tensors = model_tensors(model)
    with torch.no_grad():
        for name, tensor in to_megatron(checkpoint.read, config, place_of(model.config)):
            tensors[name].copy_(tensor)
