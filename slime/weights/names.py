"""Names and layouts of weights: one table, read in both directions.

Megatron fuses what Hugging Face keeps apart. Two layouts need more than a new name:

* **qkv**: rows of ``linear_qkv`` stand group by group. With H query heads and G key-value heads, group g holds its H/G
  query heads, then its key head, then its value head, each `head_dim` rows.
* **gate_up**: ``linear_fc1`` is ``gate_proj`` above ``up_proj``.

Everything moves and nothing is computed, so a round trip returns the same bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slime.weights.hf_config import HFModelConfig


class Layout(enum.Enum):
    """How a Megatron tensor is made of Hugging Face tensors."""

    SAME = "same"
    QKV = "qkv"
    GATE_UP = "gate_up"


@dataclass(frozen=True)
class Rule:
    """One Megatron tensor and the Hugging Face tensors that it holds, in order."""

    megatron: str
    hf: tuple[str, ...]
    layout: Layout = Layout.SAME


class WeightNameError(ValueError):
    """Tensors are missing, surplus or have a wrong shape; the message names them."""


def rules(config: HFModelConfig) -> list[Rule]:
    """The table for one model, in the order of the forward pass. Names of Megatron's local layer spec."""
    table = [Rule("embedding.word_embeddings.weight", ("model.embed_tokens.weight",))]
    for layer in range(config.layers):
        table += _layer_rules(config, f"decoder.layers.{layer}.", f"model.layers.{layer}.")
    table.append(Rule("decoder.final_layernorm.weight", ("model.norm.weight",)))
    if not config.tied_embeddings:
        table.append(Rule("output_layer.weight", ("lm_head.weight",)))
    return table


def _layer_rules(config: HFModelConfig, megatron: str, hf: str) -> list[Rule]:
    attention, mlp = hf + "self_attn.", hf + "mlp."
    projections = ("q_proj", "k_proj", "v_proj")
    table = [Rule(megatron + "input_layernorm.weight", (hf + "input_layernorm.weight",))]
    for part in ("weight", "bias") if config.qkv_bias else ("weight",):
        names = tuple(f"{attention}{projection}.{part}" for projection in projections)
        table.append(Rule(f"{megatron}self_attention.linear_qkv.{part}", names, Layout.QKV))
    if config.qk_norm:
        table += [
            Rule(f"{megatron}self_attention.{name}_layernorm.weight", (f"{attention}{name}_norm.weight",))
            for name in ("q", "k")
        ]
    table += [
        Rule(megatron + "self_attention.linear_proj.weight", (attention + "o_proj.weight",)),
        Rule(megatron + "pre_mlp_layernorm.weight", (hf + "post_attention_layernorm.weight",)),
        Rule(megatron + "mlp.linear_fc1.weight", (mlp + "gate_proj.weight", mlp + "up_proj.weight"), Layout.GATE_UP),
        Rule(megatron + "mlp.linear_fc2.weight", (mlp + "down_proj.weight",)),
    ]
    return table


def canonical_name(name: str) -> str:
    """A parameter name of Megatron as the table writes it.

    Wrappers (DDP, Float16Module) prefix ``module.``; Transformer Engine's fused layers call the norms before attention
    and MLP ``linear_qkv.layer_norm_weight`` and ``linear_fc1.layer_norm_weight``.
    """
    while name.startswith("module."):
        name = name.removeprefix("module.")
    name = name.replace("self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight")
    return name.replace("mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight")


def merge(rule: Rule, tensors: Sequence[Tensor], config: HFModelConfig) -> Tensor:
    """The Megatron tensor of `rule` from its Hugging Face tensors (in the order of ``rule.hf``)."""
    if rule.layout is Layout.SAME:
        return tensors[0]
    if rule.layout is Layout.GATE_UP:
        return torch.cat(list(tensors))
    rest = tensors[0].shape[1:]
    return torch.cat([tensor.reshape(config.groups, -1, *rest) for tensor in tensors], dim=1).reshape(-1, *rest)


def split(rule: Rule, tensor: Tensor, config: HFModelConfig) -> list[Tensor]:
    """The Hugging Face tensors of `rule` from its Megatron tensor; inverse of `merge`. All are contiguous."""
    if rule.layout is Layout.SAME:
        return [tensor.contiguous()]
    if rule.layout is Layout.GATE_UP:
        return [half.contiguous() for half in tensor.chunk(2)]
    rest = tensor.shape[1:]
    per_group = config.heads // config.groups
    sizes = [per_group * config.head_dim, config.head_dim, config.head_dim]
    parts = tensor.reshape(config.groups, sum(sizes), *rest).split(sizes, dim=1)
    return [part.reshape(-1, *rest).contiguous() for part in parts]


def hf_shape(name: str, config: HFModelConfig) -> tuple[int, ...]:
    """Shape that the Hugging Face tensor `name` must have."""
    tail = ".".join(name.split(".")[-2:])
    q_rows, kv_rows = config.heads * config.head_dim, config.groups * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (config.vocab, config.hidden),
        "lm_head.weight": (config.vocab, config.hidden),
        "q_proj.weight": (q_rows, config.hidden),
        "k_proj.weight": (kv_rows, config.hidden),
        "v_proj.weight": (kv_rows, config.hidden),
        "q_proj.bias": (q_rows,),
        "k_proj.bias": (kv_rows,),
        "v_proj.bias": (kv_rows,),
        "o_proj.weight": (config.hidden, q_rows),
        "q_norm.weight": (config.head_dim,),
        "k_norm.weight": (config.head_dim,),
        "gate_proj.weight": (config.ffn, config.hidden),
        "up_proj.weight": (config.ffn, config.hidden),
        "down_proj.weight": (config.hidden, config.ffn),
    }
    return shapes.get(tail, (config.hidden,))


def check_hf_tensors(shapes: Mapping[str, tuple[int, ...]], config: HFModelConfig, where: str) -> None:
    """Compare the tensors of a checkpoint with the table.

    A tied model may also store ``lm_head.weight``; it is a copy of the embedding.

    Args:
        shapes: Hugging Face name -> shape of every tensor of the checkpoint.
        where: the checkpoint's path, for the message.

    Raises:
        WeightNameError: names every missing and surplus tensor and every wrong shape.
    """
    expected = {name for rule in rules(config) for name in rule.hf}
    allowed = expected | ({"lm_head.weight"} if config.tied_embeddings else set())
    problems = [f"missing: {_listed(expected - set(shapes))}"] if expected - set(shapes) else []
    if set(shapes) - allowed:
        problems.append(f"surplus: {_listed(set(shapes) - allowed)}")
    problems += [
        f"{name} has shape {list(shapes[name])}, config.json asks for {list(hf_shape(name, config))}"
        for name in sorted(expected & set(shapes))
        if tuple(shapes[name]) != hf_shape(name, config)
    ]
    if problems:
        raise WeightNameError(f"{where} does not hold the weights of its config.json. " + "; ".join(problems) + ".")


def _listed(names: set[str], limit: int = 12) -> str:
    shown = ", ".join(sorted(names)[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def to_megatron(read: Callable[[str], Tensor], config: HFModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Every Megatron (name, tensor) of the model; `read` returns a Hugging Face tensor by name."""
    for rule in rules(config):
        yield rule.megatron, merge(rule, [read(name) for name in rule.hf], config)


def to_hf(tensors: Mapping[str, Tensor], config: HFModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Every Hugging Face (name, tensor) of the model, in the table's order.

    Args:
        tensors: Megatron name (any spelling that `canonical_name` understands) -> whole tensor.

    Raises:
        WeightNameError: a tensor of the table is missing, or one is not in the table.
    """
    given = {canonical_name(name): tensor for name, tensor in tensors.items()}
    table = rules(config)
    missing = {rule.megatron for rule in table} - set(given)
    surplus = set(given) - {rule.megatron for rule in table}
    if missing or surplus:
        parts = [f"{word}: {_listed(names)}" for word, names in (("missing", missing), ("surplus", surplus)) if names]
        raise WeightNameError(
            f"The Megatron model is no {config.family} of {config.layers} layers. {'; '.join(parts)}."
        )
    for rule in table:
        yield from zip(rule.hf, split(rule, given[rule.megatron], config), strict=True)
