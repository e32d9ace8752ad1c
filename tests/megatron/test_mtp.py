"""MTP layers of every family that has them: log-probs, gradients and bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from slime.weights.hf_config import HFConfigError, config_from_dict, read_config
from slime.weights.hf_io import HFCheckpoint
from slime.weights.mtp import repeated_tensors, with_mtp
from slime.weights.tables import rules

from .families import gradient_of, sequences
from .mtp_cases import WITH_MTP, Reference, make_with_mtp

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("own_groups")]
CPU = torch.device("cpu")
LOG_PROB_TOLERANCE = 2e-4
"""float32 with peaked random weights."""
GRADIENT_TOLERANCE = 2e-3
"""Of a tensor's gradient, relative to the norm of that gradient."""


@pytest.mark.parametrize(
    ("family", "recompute"), [*((name, False) for name in WITH_MTP), ("glm_moe_dsa", True), ("qwen3_next", True)]
)
def test_log_probs_gradients_and_bytes(family: str, recompute: bool, tmp_path: Path) -> None:
    from slime.megatron.gather import gather_hf_tensors
    from slime.megatron.model import build_model, load_hf_weights, model_tensors
    from slime.megatron.model_settings import ComputeSettings, Recompute
    from slime.megatron.packing import pack, run_model
    from slime.weights.layouts import split

    folder = make_with_mtp(family, tmp_path)
    config = with_mtp(read_config(folder), 1)
    model = build_model(config, CPU, ComputeSettings(recompute=Recompute() if recompute else None))
    load_hf_weights(model, config, folder)
    checkpoint = HFCheckpoint(folder)
    back = dict(gather_hf_tensors(model, config))
    assert set(back) == set(checkpoint.shapes) - set(repeated_tensors(config))
    assert all(torch.equal(tensor, checkpoint.read(name)) for name, tensor in back.items())

    tokens = sequences()
    # One prompt of one token: its first response token has too few tokens before it.
    responses = [len(tokens[0]) - 1, *(len(one) // 2 for one in tokens[1:])]
    packed = pack(tokens, responses, CPU, mtp=True)
    run_model(model, packed)
    found = packed.take_logits_ahead()
    assert found is not None and packed.take_logits_ahead() is None
    logits, ahead = found
    ours = logits.log_softmax(-1)

    theirs_model = Reference(folder)
    theirs, targets, start = list[torch.Tensor](), list[int](), 0
    places: list[int] = []
    for one, response in zip(tokens, responses, strict=True):
        first = max(len(one) - response, 2)  # of the response tokens that can be predicted
        theirs.append(theirs_model.log_probs(one)[first - 2 : len(one) - 2])
        targets += one[first:].tolist()
        places += range(start + first - (len(one) - response), start + response)
        start += response
    expected = torch.cat(theirs)
    assert ahead.targets.tolist() == targets and ahead.places.tolist() == places and 0 not in places
    assert float((ours - expected).detach().abs().max()) < LOG_PROB_TOLERANCE

    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3))
    (ours * weights).sum().backward()
    (expected * weights).sum().backward()
    gradients, tensors = theirs_model.gradients(), model_tensors(model)
    compared = 0
    for rule in rules(config):
        mine = tensors[rule.megatron].grad
        if not rule.megatron.startswith("mtp."):
            assert mine is None, rule.megatron  # the policy's own weights do not feel this loss
            continue
        if mine is None:
            assert "indexer" in rule.megatron or "expert_bias" in rule.megatron, rule.megatron
            continue
        for spec, gradient in zip(rule.hf, split(rule, mine, config), strict=True):
            wanted = gradient_of(gradients, spec.name)
            gap = float((gradient - wanted).norm())
            assert gap <= GRADIENT_TOLERANCE * float(wanted.norm()) + 1e-6, spec.name
            compared += 1
    assert compared > 10


def test_names_beside_a_vision_tower(tmp_path: Path) -> None:
    """The MTP layer stands beside the decoder, and takes its embedding from within it."""
    values = json.loads((make_with_mtp("qwen3_5_text", tmp_path) / "config.json").read_text(encoding="utf-8"))
    whole = with_mtp(config_from_dict({"model_type": "qwen3_5", "text_config": values}), 1)
    names = {name for rule in rules(whole) for name in rule.names if "mtp" in name}
    assert names == {name for name in HFCheckpoint(tmp_path).shapes if name.startswith("mtp.")}
    assert whole.untrained == ("model.visual.",)


def test_what_a_checkpoint_has_not_is_refused(tmp_path: Path) -> None:
    from .families import make_family

    plain = read_config(make_family("glm4_moe", tmp_path, num_nextn_predict_layers=0))
    with pytest.raises(HFConfigError, match="describes 0 MTP layers, and --mtp-num-layers asks for 1"):
        with_mtp(plain, 1)
    two = read_config(make_family("glm4_moe", tmp_path, num_nextn_predict_layers=2))
    with pytest.raises(HFConfigError, match="no more than 1 is built"):
        with_mtp(two, 2)
