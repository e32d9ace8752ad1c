"""Layer specs: which Megatron modules make the layers of each family."""

from __future__ import annotations

from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
from megatron.core.ssm.gated_delta_net import GatedDeltaNetSubmodules
from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.attention import SelfAttentionSubmodules
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.identity_op import IdentityOp
from megatron.core.transformer.mlp import MLP, MLPSubmodules
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.moe.experts import SequentialMLP
from megatron.core.transformer.moe.moe_layer import MoELayer, MoESubmodules
from megatron.core.transformer.moe.shared_experts import SharedExpertMLP
from megatron.core.transformer.multi_latent_attention import MLASelfAttentionSubmodules
from megatron.core.transformer.multi_token_prediction import (
    MultiTokenPredictionBlock,
    MultiTokenPredictionBlockSubmodules,
    MultiTokenPredictionLayerSubmodules,
)
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules

from slime.megatron.attention import PackedAttention
from slime.megatron.gated_delta_net import PackedGatedDeltaNet
from slime.megatron.latent_attention import LatentAttention
from slime.megatron.mtp import PackedMTPLayer
from slime.megatron.norms import LatentRMSNorm, RMSNorm, SandwichLayer, ZeroCentredRMSNorm
from slime.megatron.parallel import LayoutError
from slime.megatron.rotary import PackedSelfAttention
from slime.megatron.sparse_attention import SparseAttention
from slime.weights.dimensions import HFModelConfig
from slime.weights.mtp import mtp_layer

# megatron-core 0.16.1 looks this name up in every router, and only Transformer Engine defines it.
if not hasattr(moe_utils, "te_general_gemm"):
    moe_utils.te_general_gemm = None
# It takes Transformer Engine for installed when the import of a module that stands in for it works.
if not isinstance(multi_latent_attention.TELinear, type):
    multi_latent_attention.HAVE_TE = False


def block_spec(config: HFModelConfig, layers: tuple[int, ...]) -> TransformerBlockSubmodules:
    """Specs of the decoder layers `layers` (zero-based, over the whole model), and of the final norm.

    Raises:
        LayoutError: a pipeline stage that begins at a layer which needs another stage's choice of keys.
    """
    specs = [_layer(config, layer, layers) for layer in layers]
    return TransformerBlockSubmodules(layer_specs=specs, layer_norm=_norm(config))


def mtp_spec(config: HFModelConfig) -> ModuleSpec:
    """Spec of the MTP layers behind the decoder."""
    norm = _norm(config)
    layers = []
    for number in range(config.mtp):
        inner, layer = mtp_layer(config, number)
        parts = MultiTokenPredictionLayerSubmodules(
            enorm=norm,
            hnorm=norm,
            eh_proj=ColumnParallelLinear,
            transformer_layer=_layer(inner, layer, (layer,)),
            layer_norm=norm,
        )
        layers.append(ModuleSpec(module=PackedMTPLayer, submodules=parts))
    return ModuleSpec(module=MultiTokenPredictionBlock, submodules=MultiTokenPredictionBlockSubmodules(layers))


def _layer(config: HFModelConfig, layer: int, layers: tuple[int, ...]) -> ModuleSpec:
    norm = _norm(config)
    return ModuleSpec(
        module=SandwichLayer if config.sandwich_norms else TransformerLayer,
        submodules=TransformerLayerSubmodules(
            input_layernorm=norm,
            self_attention=_attention(config, layer, layers),
            self_attn_bda=get_bias_dropout_add,
            pre_mlp_layernorm=norm,
            mlp=_mlp(config, layer),
            mlp_bda=get_bias_dropout_add,
        ),
    )


def _norm(config: HFModelConfig) -> type[RMSNorm]:
    return ZeroCentredRMSNorm if config.zero_centred_norms else RMSNorm


def _attention(config: HFModelConfig, layer: int, layers: tuple[int, ...]) -> ModuleSpec:
    if config.linear is not None and layer in config.linear.layers:
        return ModuleSpec(
            module=PackedGatedDeltaNet,
            submodules=GatedDeltaNetSubmodules(
                in_proj=ColumnParallelLinear,
                out_norm=RMSNorm,  # not centred on zero, whatever the model's other norms are
                out_proj=RowParallelLinear,
            ),
        )
    if config.latent is not None:
        return _latent_attention(config, layer, layers)
    head_norm = _norm(config) if config.qk_norm else IdentityOp
    return ModuleSpec(
        module=PackedSelfAttention,
        params={"attn_mask_type": AttnMaskType.causal},
        submodules=SelfAttentionSubmodules(
            linear_qkv=ColumnParallelLinear,
            core_attention=PackedAttention,
            linear_proj=RowParallelLinear,
            q_layernorm=head_norm,
            k_layernorm=head_norm,
        ),
    )


def _latent_attention(config: HFModelConfig, layer: int, layers: tuple[int, ...]) -> ModuleSpec:
    core: type | ModuleSpec = PackedAttention
    if config.sparse is not None:
        source = max(one for one in config.sparse.computing if one <= layer)
        if source not in layers:
            raise LayoutError(
                f"a pipeline stage begins at layer {layers[0]}, which uses the keys that layer {source} chose on "
                f"another rank; a stage of this model begins at one of {', '.join(map(str, config.sparse.computing))}."
            )
        core = ModuleSpec(module=SparseAttention, params={"source": source, "computes": source == layer})
    return ModuleSpec(
        module=LatentAttention,
        params={"attn_mask_type": AttnMaskType.causal},
        submodules=MLASelfAttentionSubmodules(
            linear_q_proj=ColumnParallelLinear,
            linear_q_down_proj=ColumnParallelLinear,
            linear_q_up_proj=ColumnParallelLinear,
            linear_kv_down_proj=ColumnParallelLinear,
            linear_kv_up_proj=ColumnParallelLinear,
            core_attention=core,
            linear_proj=RowParallelLinear,
            q_layernorm=LatentRMSNorm,
            kv_layernorm=LatentRMSNorm,
        ),
    )


def _mlp(config: HFModelConfig, layer: int) -> ModuleSpec:
    linears = MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear)
    if config.experts is None or layer not in config.experts.layers:
        return ModuleSpec(module=MLP, submodules=linears)
    return ModuleSpec(
        module=MoELayer,
        submodules=MoESubmodules(
            experts=ModuleSpec(module=SequentialMLP, submodules=linears),
            shared_experts=ModuleSpec(module=SharedExpertMLP, submodules=linears),
        ),
    )
