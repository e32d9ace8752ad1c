"""The cost of a sequence against operations counted one matrix at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slime.data.flops import CostError, SequenceCost, read_sequence_cost, sequence_cost

DENSE = {
    "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "intermediate_size": 384, "vocab_size": 1000,
}  # fmt: skip
# DeepSeek-V3's shape in small: latent attention, one dense layer, then experts with a shared one.
LATENT = {
    "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 500,
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}  # fmt: skip


def multiply(rows: int, inner: int, columns: int) -> int:
    """Operations of [rows, inner] x [inner, columns]."""
    return 2 * rows * inner * columns


def dense_by_hand(length: int) -> int:
    total = 0
    for _ in range(2):
        total += multiply(length, 128, 4 * 32) + 2 * multiply(length, 128, 2 * 32) + multiply(length, 4 * 32, 128)
        total += 4 * (multiply(length, 32, length) + multiply(length, length, 32)) // 2  # half: causal
        total += 3 * multiply(length, 128, 384)
    return total + multiply(length, 128, 1000)


def latent_by_hand(length: int) -> int:
    total = 0
    for layer in range(3):
        total += multiply(length, 64, 24) + multiply(length, 24, 4 * 12)
        total += multiply(length, 64, 16 + 4) + multiply(length, 16, 4 * (8 + 12)) + multiply(length, 4 * 12, 64)
        total += 4 * (multiply(length, 12, length) + multiply(length, length, 12)) // 2
        if layer == 0:
            total += 3 * multiply(length, 64, 96)
        else:
            total += multiply(length, 64, 8) + 3 * 3 * multiply(length, 64, 20)
    return total + multiply(length, 64, 500)


@pytest.mark.parametrize("length", [2, 64, 4096])
@pytest.mark.parametrize(("config", "count"), [(DENSE, dense_by_hand), (LATENT, latent_by_hand)])
def test_operations_counted_one_matrix_at_a_time(config: dict[str, Any], count: Any, length: int) -> None:
    assert sequence_cost(config).of(length) == count(length)


def test_layers_of_linear_attention_have_no_quadratic_part() -> None:
    hybrid = {**DENSE, "layer_types": ["linear_attention", "full_attention"]}
    assert sequence_cost(hybrid).quadratic * 2 == sequence_cost(DENSE).quadratic
    assert sequence_cost({"text_config": DENSE}) == sequence_cost(DENSE)


def test_experts_in_every_second_layer() -> None:
    sparse = {
        **DENSE,
        "num_experts": 4,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 384,
        "decoder_sparse_step": 2,
    }
    # The expert is as wide as the dense layer, so that the router alone is added.
    assert sequence_cost(sparse).linear - sequence_cost(DENSE).linear == 2 * 128 * 4


def test_tokens_are_the_default() -> None:
    assert SequenceCost().of(17) == 17


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CostError, match="intermediate_size is None"):
        sequence_cost({key: value for key, value in DENSE.items() if key != "intermediate_size"})
    with pytest.raises(CostError, match=r"config.json: cannot be read, and --balance-data needs"):
        read_sequence_cost(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({**DENSE, "hidden_size": "big"}))
    with pytest.raises(CostError, match=r"config.json: hidden_size is 'big'"):
        read_sequence_cost(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    assert read_sequence_cost(str(tmp_path)) == sequence_cost(DENSE)
