"""Parts of a decoder from its ``config.json``: rotary embedding, experts, latent, sparse and linear attention."""

from __future__ import annotations

from slime.weights.dimensions import Experts, Latent, Linear, Rope, Sparse, Yarn
from slime.weights.hf_values import HFConfigError, Values

LLAMA3_BANDS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Megatron's rotary embedding has these built in."""

EXPERTS_SINCE_5 = "num_local_experts"
"""The name under which transformers 5 saves the number of routed experts of every family."""

MAX_EXPERTS = 4096
"""Of a layer; far above any model, see `slime.weights.hf_config.MAX_LAYERS`."""

GROUP_SCORE = 2
"""DeepSeek-V3 ranks a group of experts by the sum of its two best scores."""

QWEN_EXPERTS = ("qwen3_moe", "qwen3_next", "qwen3_5_moe_text")


def read_rope(values: Values, default_fraction: float, interleaved: bool, latent: bool) -> Rope:
    """The rotary embedding: in `rope_parameters` (transformers 5), or `rope_scaling` and the top level (before).

    Raises:
        HFConfigError: a scaling that is not built.
    """
    inner = values.inner("rope_parameters" if values.get("rope_parameters") else "rope_scaling")
    theta = (inner if inner.get("rope_theta") is not None else values).number("rope_theta")
    source = inner if inner.get("partial_rotary_factor") is not None else values
    # A latent model rotates the channels of `qk_rope_head_dim`, all of them.
    fraction = 1.0 if latent else source.number("partial_rotary_factor", default_fraction)
    kind = inner.get("rope_type", inner.get("type", "default"))
    if kind == "default":
        return Rope(theta, fraction, interleaved)
    if kind == "yarn" and latent:
        return Rope(theta, fraction, interleaved, yarn=_yarn(inner))
    if kind == "llama3":
        for key, built in LLAMA3_BANDS.items():
            if inner.get(key) != built:
                raise HFConfigError(f"{inner.where}: {key} is {inner.get(key)!r}; only Llama 3's {built} is built.")
        return Rope(theta, fraction, interleaved, llama3_factor=inner.number("factor"))
    allowed = "'default', 'yarn'" if latent else "'default', 'llama3'"
    raise HFConfigError(f"{inner.where}: rope type is {kind!r}; built for this family: {allowed}.")


def _yarn(inner: Values) -> Yarn:
    return Yarn(
        factor=inner.number("factor"),
        original_positions=inner.integer("original_max_position_embeddings"),
        beta_fast=inner.number("beta_fast", 32.0),
        beta_slow=inner.number("beta_slow", 1.0),
        mscale=inner.number("mscale", 1.0),
        mscale_all_dim=inner.number("mscale_all_dim", 1.0),
    )


def read_experts(values: Values, family: str, layers: int) -> Experts:
    """Routed and shared experts. Raises HFConfigError for numbers that do not fit together."""
    if family in QWEN_EXPERTS:
        experts = Experts(
            count=values.integer("num_experts", also=EXPERTS_SINCE_5, maximum=MAX_EXPERTS),
            chosen=values.integer("num_experts_per_tok"),
            ffn=values.integer("moe_intermediate_size"),
            shared_ffn=0 if family == "qwen3_moe" else values.integer("shared_expert_intermediate_size"),
            layers=_qwen_expert_layers(values, layers),
            sigmoid=False,
            # Qwen3.5 normalises always and has no such key.
            normalised=family == "qwen3_5_moe_text" or values.flag("norm_topk_prob"),
            gated_shared=family != "qwen3_moe",
        )
    else:
        ffn = values.integer("moe_intermediate_size")
        experts = Experts(
            count=values.integer("n_routed_experts", also=EXPERTS_SINCE_5, maximum=MAX_EXPERTS),
            chosen=values.integer("num_experts_per_tok"),
            ffn=ffn,
            shared_ffn=ffn * values.integer("n_shared_experts"),
            layers=_expert_layers(values, layers),
            sigmoid=True,
            normalised=bool(values.get("norm_topk_prob", True)),
            scaling=values.number("routed_scaling_factor"),
            groups=values.integer("n_group", 1),
            chosen_groups=values.integer("topk_group", 1),
        )
    if experts.chosen > experts.count or experts.count % experts.groups:
        raise HFConfigError(
            f"{values.where}: {experts.chosen} of {experts.count} experts in {experts.groups} groups; a token chooses "
            "at most all experts, and every group holds the same number."
        )
    if experts.groups > 1 and experts.chosen != GROUP_SCORE * experts.chosen_groups:
        raise HFConfigError(
            f"{values.where}: num_experts_per_tok {experts.chosen} with topk_group {experts.chosen_groups}; Megatron "
            f"ranks a group by its best {experts.chosen} // {experts.chosen_groups} experts, the checkpoint's model "
            f"by its best {GROUP_SCORE}, so only {GROUP_SCORE * experts.chosen_groups} experts a token are built."
        )
    return experts


def _qwen_expert_layers(values: Values, layers: int) -> tuple[int, ...]:
    step = values.integer("decoder_sparse_step", 1)
    dense = values.get("mlp_only_layers") or []
    return tuple(layer for layer in range(layers) if layer not in dense and (layer + 1) % step == 0)


def _expert_layers(values: Values, layers: int) -> tuple[int, ...]:
    if values.get("mlp_layer_types") is not None:
        kinds = values.names("mlp_layer_types", layers, ("dense", "sparse"))
        return tuple(layer for layer, kind in enumerate(kinds) if kind == "sparse")
    return tuple(range(values.integer("first_k_dense_replace", 1, minimum=0), layers))


def read_latent(values: Values) -> Latent:
    """Ranks and head channels of multi-head latent attention."""
    if values.get("rope_interleave", True) is not True:
        raise HFConfigError(f"{values.where}: rope_interleave is false; only interleaved pairs are built.")
    return Latent(
        q_rank=None if values.get("q_lora_rank") is None else values.integer("q_lora_rank"),
        kv_rank=values.integer("kv_lora_rank"),
        nope=values.integer("qk_nope_head_dim"),
        rope=values.integer("qk_rope_head_dim"),
        value=values.integer("v_head_dim"),
    )


def read_sparse(values: Values, layers: int) -> Sparse:
    """The indexer, and the layers that have one (`indexer_types`, or `index_topk_freq` with its offset)."""
    if values.get("indexer_types") is not None:
        kinds = values.names("indexer_types", layers, ("full", "shared"))
        computing = tuple(layer for layer, kind in enumerate(kinds) if kind == "full")
    else:
        step = values.integer("index_topk_freq", 1)
        offset = values.integer("index_skip_topk_offset", 2, minimum=0)
        computing = tuple(layer for layer in range(layers) if max(layer - offset + 1, 0) % step == 0)
    if not computing or computing[0] != 0:
        raise HFConfigError(f"{values.where}: layer 0 must run its own indexer; there is no choice before it to use.")
    return Sparse(
        topk=values.integer("index_topk"),
        heads=values.integer("index_n_heads"),
        head_dim=values.integer("index_head_dim"),
        computing=computing,
    )


def read_linear(values: Values, layers: int) -> Linear:
    """The gated delta net, and its layers (`layer_types`, or all but every `full_attention_interval`-th)."""
    if values.get("layer_types") is not None:
        kinds = values.names("layer_types", layers, ("linear_attention", "full_attention"))
        chosen = tuple(layer for layer, kind in enumerate(kinds) if kind == "linear_attention")
    else:
        step = values.integer("full_attention_interval", 4)
        chosen = tuple(layer for layer in range(layers) if (layer + 1) % step)
    linear = Linear(
        key_heads=values.integer("linear_num_key_heads"),
        value_heads=values.integer("linear_num_value_heads"),
        key_dim=values.integer("linear_key_head_dim"),
        value_dim=values.integer("linear_value_head_dim"),
        kernel=values.integer("linear_conv_kernel_dim"),
        layers=chosen,
    )
    if linear.value_heads % linear.key_heads:
        raise HFConfigError(
            f"{values.where}: linear_num_value_heads {linear.value_heads} must be a multiple of linear_num_key_heads "
            f"{linear.key_heads}."
        )
    return linear
