"""What one sequence costs the trainer: a part that grows with its length, and one that grows with the square of it.

Floating-point operations of a forward pass, multiply and add counted as two. The backward pass costs twice as much for
every sequence alike, so the proportions, which are all that a schedule needs, stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CostError(ValueError):
    """The dimensions of the model are not in its config.json; the message names the key."""


@dataclass(frozen=True, slots=True)
class SequenceCost:
    """``linear * s + quadratic * s**2`` for a sequence of s tokens. The default counts tokens."""

    linear: int = 1
    quadratic: int = 0

    def of(self, length: int) -> int:
        """The cost of one sequence."""
        return self.linear * length + self.quadratic * length * length


def sequence_cost(config: Mapping[str, Any]) -> SequenceCost:
    """Cost of a decoder from the dimensions in its Hugging Face ``config.json``.

    Projections, gated MLP (the experts that a token visits, shared ones included) and the output layer are linear;
    causal attention, of which half the square is computed, is quadratic. Layers of linear attention have no quadratic
    part.

    Raises:
        CostError: a dimension is missing.
    """
    own = config.get("text_config") or config
    layers, hidden = _dimension(own, "num_hidden_layers"), _dimension(own, "hidden_size")
    projections, attention = _attention(own, hidden)
    kinds = own.get("layer_types") or ["full_attention"] * layers
    quadratic = attention * sum(kind != "linear_attention" for kind in kinds)
    sparse = _sparse_layers(own, layers)
    linear = layers * projections + 2 * hidden * _dimension(own, "vocab_size")
    if sparse < layers:
        linear += (layers - sparse) * 6 * hidden * _dimension(own, "intermediate_size")
    if sparse:
        linear += sparse * _experts(own, hidden)
    return SequenceCost(linear, quadratic)


def read_sequence_cost(checkpoint: str) -> SequenceCost:
    """`sequence_cost` of the model in a Hugging Face folder.

    Raises:
        CostError: no config.json that can be read, or a dimension is missing.
    """
    path = Path(checkpoint, "config.json")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CostError(f"{path}: cannot be read, and --balance-data needs the model's dimensions: {error}.") from error
    try:
        return sequence_cost(values)
    except CostError as error:
        raise CostError(f"{path}: {error}") from error


def _attention(config: Mapping[str, Any], hidden: int) -> tuple[int, int]:
    """Operations of one layer's projections for a token, and of its attention for the square of the length."""
    heads = _dimension(config, "num_attention_heads")
    if not config.get("kv_lora_rank"):
        groups = config.get("num_key_value_heads") or heads
        width = config.get("head_dim") or hidden // heads
        return 2 * hidden * width * (heads + 2 * groups) + 2 * heads * width * hidden, 2 * heads * width
    # Multi-head latent attention: queries, keys and values go through narrow layers.
    latent, rope = _dimension(config, "kv_lora_rank"), _dimension(config, "qk_rope_head_dim")
    plain, value = _dimension(config, "qk_nope_head_dim"), _dimension(config, "v_head_dim")
    query = heads * (plain + rope)
    narrow = config.get("q_lora_rank")
    queries = 2 * narrow * (hidden + query) if narrow else 2 * hidden * query
    keys_values = 2 * hidden * (latent + rope) + 2 * latent * heads * (plain + value)
    return queries + keys_values + 2 * heads * value * hidden, heads * (plain + rope + value)


def _sparse_layers(config: Mapping[str, Any], layers: int) -> int:
    """Number of layers whose MLP is a mixture of experts."""
    if not config.get("num_experts_per_tok"):
        return 0
    if "first_k_dense_replace" in config:
        return layers - int(config["first_k_dense_replace"])
    step = int(config.get("decoder_sparse_step") or 1)
    dense = set(config.get("mlp_only_layers") or ())
    return sum((layer + 1) % step == 0 and layer not in dense for layer in range(layers))


def _experts(config: Mapping[str, Any], hidden: int) -> int:
    """Operations of one mixture for a token: the router, the experts it visits, the shared ones."""
    width = _dimension(config, "moe_intermediate_size")
    experts = next(
        (config[key] for key in ("n_routed_experts", "num_experts", "num_local_experts") if key in config), 0
    )
    shared = config.get("shared_expert_intermediate_size") or width * int(config.get("n_shared_experts") or 0)
    return 2 * hidden * experts + 6 * hidden * (width * _dimension(config, "num_experts_per_tok") + shared)


def _dimension(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise CostError(f"{key} is {value!r}; the cost of a sequence follows from it.")
    return value
