"""The table of weights of each family, in the order of the forward pass. Names of Megatron's local layer spec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slime.weights.dimensions import Experts, HFModelConfig, Latent, Linear, Sparse
from slime.weights.layouts import HFTensor, Layout, Rule, linear_rows
from slime.weights.mtp import behind_last, mtp_layer, mtp_prefix, under_mtp

COLUMNS, ROWS = 0, 1
"""Axis that tensor parallelism cuts: outputs of a column-parallel layer, inputs of a row-parallel one."""


def rules(config: HFModelConfig) -> list[Rule]:
    """Every tensor of the decoder, and of the MTP layers that the model has."""
    vocabulary = (config.vocab, config.hidden)
    body = config.prefix
    table = [
        Rule(
            "embedding.word_embeddings.weight",
            (HFTensor(f"{body}embed_tokens.weight", vocabulary),),
            axis=COLUMNS,
        )
    ]
    for layer in range(config.layers):
        inner, outer = f"decoder.layers.{layer}.", f"{body}layers.{layer}."
        table += [replace(rule, layer=layer) for rule in _layer(config, layer, inner, outer)]
    table.append(Rule("decoder.final_layernorm.weight", (HFTensor(f"{body}norm.weight", (config.hidden,)),)))
    if not config.tied_embeddings:
        head = (HFTensor("lm_head.weight", vocabulary),)
        table.append(Rule("output_layer.weight", head, axis=COLUMNS))
    for layer in range(config.mtp):
        table += _mtp(config, layer)
    return table


def _mtp(config: HFModelConfig, layer: int) -> Iterator[Rule]:
    """In every family, as in Megatron, the projection takes the embedding first and then the hidden state."""
    megatron, hidden = f"mtp.layers.{layer}.", config.hidden
    names = (
        ("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm")
        if under_mtp(config)
        else tuple(behind_last(config, layer) + name for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm"))
    )
    embedding, state, projection, last = (f"{name}.weight" for name in names)
    yield Rule(f"{megatron}enorm.weight", (HFTensor(embedding, (hidden,)),))
    yield Rule(f"{megatron}hnorm.weight", (HFTensor(state, (hidden,)),))
    yield Rule(f"{megatron}eh_proj.weight", (HFTensor(projection, (hidden, 2 * hidden)),), axis=COLUMNS)
    inner, number = mtp_layer(config, layer)
    yield from _layer(inner, number, f"{megatron}transformer_layer.", mtp_prefix(config, layer))
    yield Rule(f"{megatron}final_layernorm.weight", (HFTensor(last, (hidden,)),))


def _layer(config: HFModelConfig, layer: int, megatron: str, hf: str) -> Iterator[Rule]:
    def norm(inner: str, outer: str) -> Rule:
        return Rule(f"{megatron}{inner}.weight", (HFTensor(f"{hf}{outer}.weight", (config.hidden,)),))

    yield norm("input_layernorm", "input_layernorm")
    if config.linear is not None and layer in config.linear.layers:
        yield from _linear_attention(config, config.linear, f"{megatron}self_attention.", f"{hf}linear_attn.")
    elif config.latent is not None:
        yield from _latent_attention(config, config.latent, f"{megatron}self_attention.", f"{hf}self_attn.")
        if config.sparse is not None and layer in config.sparse.computing:
            yield from _indexer(config, config.latent, config.sparse, megatron, hf)
    else:
        yield from _attention(config, f"{megatron}self_attention.", f"{hf}self_attn.")
    if config.sandwich_norms:
        yield norm("post_self_attn_layernorm", "post_self_attn_layernorm")
    yield norm("pre_mlp_layernorm", "post_attention_layernorm")
    if config.experts is not None and layer in config.experts.layers:
        yield from _experts(config, config.experts, f"{megatron}mlp.", f"{hf}mlp.")
    else:
        yield from _dense_mlp(config, f"{megatron}mlp.", f"{hf}mlp.")
    if config.sandwich_norms:
        yield norm("post_mlp_layernorm", "post_mlp_layernorm")


def _attention(config: HFModelConfig, megatron: str, hf: str) -> Iterator[Rule]:
    queries, keys = config.heads * config.head_dim, config.groups * config.head_dim
    rows = (("q_proj", queries * 2 if config.output_gate else queries), ("k_proj", keys), ("v_proj", keys))
    layout = Layout.GATED_QKV if config.output_gate else Layout.QKV
    yield Rule(
        f"{megatron}linear_qkv.weight",
        tuple(HFTensor(f"{hf}{name}.weight", (count, config.hidden)) for name, count in rows),
        layout,
        COLUMNS,
    )
    if config.qkv_bias:
        biases = tuple(HFTensor(f"{hf}{name}.bias", (count,)) for name, count in rows)
        yield Rule(f"{megatron}linear_qkv.bias", biases, layout, COLUMNS)
    if config.qk_norm:
        for name in ("q", "k"):
            norm = (HFTensor(f"{hf}{name}_norm.weight", (config.head_dim,)),)
            yield Rule(f"{megatron}{name}_layernorm.weight", norm)
    output = (HFTensor(f"{hf}o_proj.weight", (config.hidden, queries)),)
    yield Rule(f"{megatron}linear_proj.weight", output, axis=ROWS)


def _latent_attention(config: HFModelConfig, latent: Latent, megatron: str, hf: str) -> Iterator[Rule]:
    """Megatron's down projections are column-parallel, and gather their outputs."""
    queries = config.heads * (latent.nope + latent.rope)

    def same(inner: str, outer: str, shape: tuple[int, ...], axis: int | None) -> Rule:
        return Rule(f"{megatron}{inner}.weight", (HFTensor(f"{hf}{outer}.weight", shape),), axis=axis)

    if latent.q_rank is None:
        yield same("linear_q_proj", "q_proj", (queries, config.hidden), COLUMNS)
    else:
        yield same("linear_q_down_proj", "q_a_proj", (latent.q_rank, config.hidden), COLUMNS)
        yield same("q_layernorm", "q_a_layernorm", (latent.q_rank,), None)
        yield same("linear_q_up_proj", "q_b_proj", (queries, latent.q_rank), COLUMNS)
    yield same("linear_kv_down_proj", "kv_a_proj_with_mqa", (latent.kv_rank + latent.rope, config.hidden), COLUMNS)
    yield same("kv_layernorm", "kv_a_layernorm", (latent.kv_rank,), None)
    up_rows = config.heads * (latent.nope + latent.value)
    yield same("linear_kv_up_proj", "kv_b_proj", (up_rows, latent.kv_rank), COLUMNS)
    yield same("linear_proj", "o_proj", (config.hidden, config.heads * latent.value), ROWS)


def _indexer(config: HFModelConfig, latent: Latent, sparse: Sparse, megatron: str, hf: str) -> Iterator[Rule]:
    """The indexer is small; every tensor-parallel rank has all of it, and so chooses the same keys."""
    inner, outer = f"{megatron}self_attention.core_attention.indexer.", f"{hf}self_attn.indexer."
    shapes = {
        ("linear_wq_b.weight", "wq_b.weight"): (sparse.heads * sparse.head_dim, latent.q_rank or config.hidden),
        ("linear_wk.weight", "wk.weight"): (sparse.head_dim, config.hidden),
        ("k_norm.weight", "k_norm.weight"): (sparse.head_dim,),
        ("k_norm.bias", "k_norm.bias"): (sparse.head_dim,),
    }
    for (ours, theirs), shape in shapes.items():
        yield Rule(inner + ours, (HFTensor(outer + theirs, shape),), Layout.ROPE_LAST)
    weights = (HFTensor(f"{outer}weights_proj.weight", (sparse.heads, config.hidden)),)
    yield Rule(f"{inner}linear_weights_proj.weight", weights)


def _linear_attention(config: HFModelConfig, linear: Linear, megatron: str, hf: str) -> Iterator[Rule]:
    keys, values, heads = linear_rows(config)

    def projection(name: str, rows: int, sections: tuple[int, ...] = ()) -> HFTensor:
        return HFTensor(f"{hf}{name}.weight", (rows, config.hidden), sections)

    if config.family == "qwen3_next":
        stored: tuple[HFTensor, ...] = (
            projection("in_proj_qkvz", 2 * keys + 2 * values),
            projection("in_proj_ba", 2 * heads),
        )
        yield Rule(f"{megatron}in_proj.weight", stored, Layout.GROUPED_LINEAR, COLUMNS)
    else:
        stored = (
            projection("in_proj_qkv", 2 * keys + values, (keys, keys, values)),
            projection("in_proj_z", values),
            projection("in_proj_b", heads),
            projection("in_proj_a", heads),
        )
        yield Rule(f"{megatron}in_proj.weight", stored, Layout.CONCAT, COLUMNS)
    kernel = HFTensor(f"{hf}conv1d.weight", (2 * keys + values, 1, linear.kernel), (keys, keys, values))
    yield Rule(f"{megatron}conv1d.weight", (kernel,), axis=COLUMNS)
    for name in ("dt_bias", "A_log"):
        yield Rule(megatron + name, (HFTensor(hf + name, (heads,)),), axis=COLUMNS)
    yield Rule(f"{megatron}out_norm.weight", (HFTensor(f"{hf}norm.weight", (linear.value_dim,)),))
    output = (HFTensor(f"{hf}out_proj.weight", (config.hidden, values)),)
    yield Rule(f"{megatron}out_proj.weight", output, axis=ROWS)


def _dense_mlp(config: HFModelConfig, megatron: str, hf: str) -> Iterator[Rule]:
    if config.fused_gate_up:
        both = HFTensor(f"{hf}gate_up_proj.weight", (2 * config.ffn, config.hidden), (config.ffn, config.ffn))
        yield Rule(f"{megatron}linear_fc1.weight", (both,), axis=COLUMNS)
        down = (HFTensor(f"{hf}down_proj.weight", (config.hidden, config.ffn)),)
        yield Rule(f"{megatron}linear_fc2.weight", down, axis=ROWS)
    else:
        yield from _gated_mlp(config.hidden, config.ffn, megatron, hf)


def _gated_mlp(hidden: int, ffn: int, megatron: str, hf: str, expert: int | None = None) -> Iterator[Rule]:
    halves = tuple(HFTensor(f"{hf}{name}.weight", (ffn, hidden)) for name in ("gate_proj", "up_proj"))
    yield Rule(f"{megatron}linear_fc1.weight", halves, Layout.CONCAT, COLUMNS, expert=expert)
    down = (HFTensor(f"{hf}down_proj.weight", (hidden, ffn)),)
    yield Rule(f"{megatron}linear_fc2.weight", down, axis=ROWS, expert=expert)


def _experts(config: HFModelConfig, experts: Experts, megatron: str, hf: str) -> Iterator[Rule]:
    yield Rule(f"{megatron}router.weight", (HFTensor(f"{hf}gate.weight", (experts.count, config.hidden)),))
    if experts.sigmoid:
        bias = (HFTensor(f"{hf}gate.e_score_correction_bias", (experts.count,)),)
        yield Rule(f"{megatron}router.expert_bias", bias)
    for expert in range(experts.count):
        inner, outer = f"{megatron}experts.local_experts.{expert}.", f"{hf}experts.{expert}."
        yield from _gated_mlp(config.hidden, experts.ffn, inner, outer, expert)
    if experts.shared_ffn:
        outer = f"{hf}shared_expert." if experts.gated_shared else f"{hf}shared_experts."
        yield from _gated_mlp(config.hidden, experts.shared_ffn, f"{megatron}shared_experts.", outer)
    if experts.gated_shared:
        gate = (HFTensor(f"{hf}shared_expert_gate.weight", (1, config.hidden)),)
        yield Rule(f"{megatron}shared_experts.gate_weight", gate)
