"""What `config.json` says of a model, under one name for each dimension."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from slime.config.preflight.json_files import whole_number


class Model:
    """The dimensions in a checkpoint's `config.json`; None where it does not state one.

    Attributes:
        path: of the file.
        whole: its content.
        found: the language model's part of it, for a model with vision one level down.
    """

    def __init__(self, path: Path, whole: dict[str, Any]) -> None:
        self.path = path
        self.whole = whole
        inner = whole.get("text_config")
        self.found: Mapping[str, Any] = {**whole, **inner} if isinstance(inner, dict) else whole

    @cached_property
    def layers(self) -> int | None:
        """Decoder layers, without MTP layers."""
        return whole_number(self.found, "num_hidden_layers")

    @cached_property
    def mtp_layers(self) -> int:
        """Layers of multi-token prediction. Qwen3-Next's file does not say that it has one."""
        unstated = 1 if self.found.get("model_type") == "qwen3_next" else 0
        return whole_number(self.found, "num_nextn_predict_layers", "mtp_num_hidden_layers") or unstated

    @cached_property
    def hidden(self) -> int | None:
        """Width of the residual stream."""
        return whole_number(self.found, "hidden_size")

    @cached_property
    def ffn(self) -> int | None:
        """Width of a dense layer's MLP."""
        return whole_number(self.found, "intermediate_size")

    @cached_property
    def heads(self) -> int | None:
        """Query heads."""
        return whole_number(self.found, "num_attention_heads")

    @cached_property
    def groups(self) -> int | None:
        """Key-value heads."""
        return whole_number(self.found, "num_key_value_heads") or self.heads

    @cached_property
    def head_dim(self) -> int | None:
        """Width of a head."""
        given = whole_number(self.found, "head_dim")
        if given is None and self.hidden and self.heads:
            return self.hidden // self.heads
        return given

    @cached_property
    def is_latent(self) -> bool:
        """Multi-head latent attention: no key-value heads are kept."""
        return whole_number(self.found, "kv_lora_rank") is not None

    @cached_property
    def vision_heads(self) -> int | None:
        """Attention heads of the vision tower."""
        vision = self.whole.get("vision_config")
        return whole_number(vision, "num_heads", "num_attention_heads") if isinstance(vision, dict) else None

    @cached_property
    def vocab(self) -> int | None:
        """Rows of the embedding."""
        return whole_number(self.found, "vocab_size")

    @cached_property
    def experts(self) -> int | None:
        """Routed experts of a layer; None for a dense model."""
        return whole_number(self.found, "n_routed_experts", "num_experts", "num_local_experts")

    @cached_property
    def chosen(self) -> int | None:
        """Experts of a token."""
        return whole_number(self.found, "num_experts_per_tok")

    @cached_property
    def expert_ffn(self) -> int | None:
        """Width of one routed expert."""
        return whole_number(self.found, "moe_intermediate_size")

    @cached_property
    def shared_ffn(self) -> int | None:
        """Width of the shared expert; None without one."""
        given = whole_number(self.found, "shared_expert_intermediate_size")
        count = whole_number(self.found, "n_shared_experts")
        return count * self.expert_ffn if given is None and count and self.expert_ffn else given

    @cached_property
    def dense_layers(self) -> int:
        """Layers without experts at the start of a model with experts; all layers of a dense one."""
        if self.experts is None:
            return self.layers or 0
        return whole_number(self.found, "first_k_dense_replace") or 0

    @cached_property
    def positions(self) -> int | None:
        """Positions that the model can tell apart, with the stretch of its rotary scaling."""
        plain = whole_number(self.found, "max_position_embeddings")
        scaling = self.found.get("rope_scaling") or self.found.get("rope_parameters")
        if plain is None or not isinstance(scaling, Mapping):
            return plain
        original, factor = whole_number(scaling, "original_max_position_embeddings"), scaling.get("factor")
        if original is None or isinstance(factor, bool) or not isinstance(factor, int | float):
            return plain
        return max(plain, int(original * factor))

    @cached_property
    def tied(self) -> bool:
        """The output layer shares the embedding."""
        return self.found.get("tie_word_embeddings") is True

    @cached_property
    def fp8_block(self) -> tuple[int, int] | None:
        """Rows and columns that share a scale in block FP8; None for other weights."""
        quant = self.whole.get("quantization_config") or self.found.get("quantization_config")
        block = (
            quant.get("weight_block_size") if isinstance(quant, dict) and quant.get("quant_method") == "fp8" else None
        )
        if isinstance(block, list) and len(block) == 2 and all(isinstance(one, int) and one > 0 for one in block):
            return block[0], block[1]
        return None
