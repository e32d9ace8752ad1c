"""Every family: the same logits and gradients as transformers' model, and the same bytes after a round trip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from slime.weights.hf_config import HFConfigError, config_from_dict, read_config
from slime.weights.hf_io import HFCheckpoint
from slime.weights.tables import rules

from .families import FAMILIES, gradient_of, make_family, reference, sequences

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("own_groups")]
CPU = torch.device("cpu")
LOG_PROB_TOLERANCE = 2e-4
"""float32 with peaked random weights; the largest seen was 8.2e-5 (qwen3_5_moe_text)."""
GRADIENT_TOLERANCE = 2e-3
"""Of a tensor's gradient, relative to the norm of that gradient."""


@pytest.fixture(scope="module", params=list(FAMILIES))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of one family."""
    return make_family(request.param, tmp_path_factory.mktemp(request.param))


def test_logits_gradients_and_bytes(folder: Path) -> None:
    from slime.megatron.gather import gather_hf_tensors
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings
    from slime.megatron.packing import pack, run_model

    config = read_config(folder)
    model = build_model(config, CPU, ComputeSettings())
    load_hf_weights(model, config, folder)

    checkpoint = HFCheckpoint(folder)
    back = dict(gather_hf_tensors(model, config))
    assert set(back) == set(checkpoint.shapes)
    for name, tensor in back.items():
        assert tensor.is_contiguous() and torch.equal(tensor, checkpoint.read(name)), name

    tokens = sequences()
    packed = pack(tokens, [1] * len(tokens), CPU)
    ours = run_model(model, packed)[0].float().log_softmax(-1).split([len(one) for one in tokens])
    theirs_model = reference(folder)
    theirs = [theirs_model(one[None]).logits[0].log_softmax(-1) for one in tokens]
    gap = max(float((a - b).detach().abs().max()) for a, b in zip(ours, theirs, strict=True))
    assert gap < LOG_PROB_TOLERANCE

    torch.manual_seed(3)
    weights = [torch.randn(one.shape) for one in theirs]
    sum((a * w).sum() for a, w in zip(ours, weights, strict=True)).backward()
    sum((a * w).sum() for a, w in zip(theirs, weights, strict=True)).backward()
    _compare_gradients(model, config, theirs_model)


def _compare_gradients(model: torch.nn.Module, config: object, theirs: torch.nn.Module) -> None:
    """Megatron's gradients, laid out as Hugging Face's tensors, against transformers'."""
    from slime.megatron.model import model_tensors
    from slime.weights.dimensions import HFModelConfig
    from slime.weights.layouts import split

    assert isinstance(config, HFModelConfig)
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    tensors = model_tensors(model)
    compared = 0
    for rule in rules(config):
        ours = tensors[rule.megatron].grad
        if ours is None:  # the indexer and the routers' biases do not learn, there as here
            assert "indexer" in rule.megatron or "expert_bias" in rule.megatron, rule.megatron
            continue
        for spec, gradient in zip(rule.hf, split(rule, ours, config), strict=True):
            expected = gradient_of(gradients, spec.name)
            norm = float(expected.norm())
            assert float((gradient - expected).norm()) <= GRADIENT_TOLERANCE * norm + 1e-6, spec.name
            compared += 1
    assert compared > 10


def test_names_of_a_model_with_a_vision_tower(tmp_path: Path) -> None:
    values = json.loads((make_family("qwen3_5_text", tmp_path) / "config.json").read_text(encoding="utf-8"))
    plain, whole = config_from_dict(values), config_from_dict({"model_type": "qwen3_5", "text_config": values})
    renamed = [name.replace("model.", "model.language_model.", 1) for rule in rules(plain) for name in rule.names]
    assert [name for rule in rules(whole) for name in rule.names] == renamed
    assert whole.untrained == ("mtp.", "model.visual.")


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("deepseek_v3", {"num_experts_per_tok": 2}, "only 4 experts a token are built"),
        ("deepseek_v3", {"rope_interleave": False}, "rope_interleave is false"),
        ("glm_moe_dsa", {"indexer_types": ["shared"] * 5}, "layer 0 must run its own indexer"),
        ("glm_moe_dsa", {"indexer_types": ["full", "half"] * 3}, r"indexer_types\[1\] is 'half'"),
        ("qwen3_next", {"layer_types": ["linear_attention"]}, "layer_types names 1 layers; num_hidden_layers is 4"),
        ("qwen3_next", {"linear_num_value_heads": 3}, "must be a multiple of linear_num_key_heads 2"),
        ("qwen3_moe", {"num_local_experts": None, "num_experts": None}, "num_experts is None"),
        ("llama", {"rope_parameters": {"rope_theta": 1e4, "rope_type": "llama3", "factor": 8}}, "low_freq_factor"),
        ("llama", {"mlp_bias": True}, "mlp_bias is true"),
        ("llama", {"rope_parameters": 3}, "rope_parameters is a int"),
    ],
)
def test_what_cannot_be_built_is_refused(family: str, change: dict[str, object], message: str, tmp_path: Path) -> None:
    values = json.loads((make_family(family, tmp_path) / "config.json").read_text(encoding="utf-8"))
    with pytest.raises(HFConfigError, match=message):
        config_from_dict({**values, **change})
