"""The table of weight names and layouts, against transformers' own models and element-by-element indexing."""

from __future__ import annotations

import pytest
import torch

from slime.weights.hf_config import HFConfigError, config_from_dict
from slime.weights.layouts import merge, split
from slime.weights.names import (
    WeightNameError,
    canonical_name,
    check_hf_tensors,
    to_megatron,
)
from slime.weights.tables import rules

pytestmark = pytest.mark.runtime
QWEN3 = {
    "model_type": "qwen3",
    "vocab_size": 11,
    "hidden_size": 12,
    "intermediate_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}
QWEN2 = {**{key: value for key, value in QWEN3.items() if key != "head_dim"}, "model_type": "qwen2"}


def make_state(values: dict[str, object]) -> dict[str, torch.Tensor]:
    """The state dict of a random transformers model of these dimensions."""
    import transformers

    kinds = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    }
    config_class, model_class = kinds[str(values["model_type"])]
    torch.manual_seed(0)
    state: dict[str, torch.Tensor] = model_class(config_class(**values)).state_dict()
    return state


@pytest.mark.parametrize(
    "values", [QWEN3, QWEN2, {**QWEN3, "tie_word_embeddings": True}], ids=["qwen3", "qwen2", "tied"]
)
def test_table_covers_transformers_models_and_returns_the_same_bytes(values: dict[str, object]) -> None:
    state = make_state(values)
    config = config_from_dict(values)
    check_hf_tensors({name: tuple(tensor.shape) for name, tensor in state.items()}, config, "model")
    stored = {
        name: tensor for name, tensor in state.items() if not (config.tied_embeddings and name == "lm_head.weight")
    }
    expected = {tensor.name: tensor.shape for rule in rules(config) for tensor in rule.hf}
    assert expected == {name: tuple(tensor.shape) for name, tensor in stored.items()}
    megatron = dict(to_megatron(state.__getitem__, config))
    back = {
        spec.name: tensor
        for rule in rules(config)
        for spec, tensor in zip(rule.hf, split(rule, megatron[rule.megatron], config), strict=True)
    }
    assert set(back) == set(stored)
    for name, tensor in back.items():
        assert tensor.is_contiguous()
        assert torch.equal(tensor, state[name]), name


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_qkv_rows_stand_group_by_group(part: str) -> None:
    config = config_from_dict({**QWEN2, "head_dim": 4})
    heads, groups, size = 6, 2, 4
    rest = (12,) if part == "weight" else ()

    def tagged(kind: int, count: int) -> torch.Tensor:
        # The value of a row says what it is: kind (q 1, k 2, v 3), head, row in the head.
        rows = [kind * 10000 + head * 100 + row for head in range(count) for row in range(size)]
        return torch.tensor(rows, dtype=torch.float32).reshape(-1, *([1] * len(rest))).expand(-1, *rest).contiguous()

    rule = next(rule for rule in rules(config) if rule.megatron.endswith(f"linear_qkv.{part}"))
    tensors = [tagged(1, heads), tagged(2, groups), tagged(3, groups)]
    merged = merge(rule, tensors, config)
    expected = []
    for group in range(groups):
        for head in range(group * 3, group * 3 + 3):
            expected += [10000 + head * 100 + row for row in range(size)]
        for kind in (2, 3):
            expected += [kind * 10000 + group * 100 + row for row in range(size)]
    assert (merged[:, 0] if rest else merged).tolist() == expected
    for found, original in zip(split(rule, merged, config), tensors, strict=True):
        assert torch.equal(found, original)


def test_gate_lies_above_up() -> None:
    config = config_from_dict(QWEN3)
    rule = next(rule for rule in rules(config) if rule.megatron.endswith("linear_fc1.weight"))
    gate, up = torch.zeros(10, 12), torch.ones(10, 12)
    merged = merge(rule, [gate, up], config)
    assert merged[:10].sum() == 0 and merged[10:].sum() == 120


def test_wrapped_and_fused_names_are_understood() -> None:
    name = "decoder.layers.3.self_attention.linear_qkv.layer_norm_weight"
    assert canonical_name(f"module.module.{name}") == "decoder.layers.3.input_layernorm.weight"
    assert (
        canonical_name("decoder.layers.0.mlp.linear_fc1.layer_norm_weight")
        == "decoder.layers.0.pre_mlp_layernorm.weight"
    )
    assert canonical_name("decoder.layers.0.mlp.linear_fc1.weight") == "decoder.layers.0.mlp.linear_fc1.weight"


def test_missing_surplus_and_misshapen_tensors_are_named() -> None:
    config = config_from_dict(QWEN3)
    shapes = {name: tuple(tensor.shape) for name, tensor in make_state(QWEN3).items()}
    del shapes["model.layers.1.self_attn.k_proj.weight"]
    shapes["model.layers.2.mlp.up_proj.weight"] = (10, 12)
    shapes["model.norm.weight"] = (13,)
    with pytest.raises(WeightNameError) as caught:
        check_hf_tensors(shapes, config, "there")
    text = str(caught.value)
    assert "missing: model.layers.1.self_attn.k_proj.weight;" in text
    assert "surplus: model.layers.2.mlp.up_proj.weight;" in text
    assert "model.norm.weight has shape [13], config.json asks for [12]" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, r"model_type is 'gpt2'.*supported: llama, qwen2, qwen3"),
        ({"model_type": None}, r"model_type is .*None"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be an integer above 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"num_key_value_heads": 4}, "num_attention_heads 6 must be a multiple of num_key_value_heads 4"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"attention_bias": True}, "attention_bias"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}}, "rope type is 'yarn'"),
        ({"rope_parameters": None}, "rope_theta is None"),
        ({"dtype": "float8"}, "dtype is 'float8'; it must be one of float32, bfloat16, float16"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised"),
    ],
)
def test_a_config_that_cannot_be_built_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(HFConfigError, match=message):
        config_from_dict({**QWEN3, **change})


def test_older_spelling_of_rope_and_dtype() -> None:
    values = {**QWEN3, "rope_parameters": None, "rope_theta": 1000000, "torch_dtype": "bfloat16"}
    config = config_from_dict(values)
    assert (config.rope.theta, config.dtype, config.head_dim) == (1e6, "bfloat16", 4)
