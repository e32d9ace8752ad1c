"""What an update brings to an engine is what a conversion of the same weights would have given it."""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from safetensors.torch import load_file, save_file

from slime.weights.hf_io import HFCheckpoint
from slime.weights.quantise.formats import Format, Fp8Format, Int4Format, QuantiseError
from slime.weights.quantise.job import Job, quantise
from slime.weights.served import ServedCheckpoint, read_served_config

from ..megatron.megatron_cases import make_hf_model

pytestmark = pytest.mark.runtime

FORMATS: dict[str, Format] = {
    "fp8, blocks": Fp8Format("block", (32, 32)),
    "fp8, rows": Fp8Format("channel"),
    "fp8, tensors": Fp8Format("tensor"),
    "fp8, powers of two": Fp8Format("block", (32, 32), power_of_two=True),
    "int4": Int4Format(32),
    "int4, zero points": Int4Format(32, symmetric=False),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_hf_model(tmp_path_factory.mktemp("hf") / "qwen3")


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", list(FORMATS))
def test_an_update_is_quantised_as_a_conversion_does_it(name: str, plain: Path, tmp_path: Path) -> None:
    quantise(Job(plain, tmp_path / "q"), FORMATS[name], (), lambda text: None)
    served = ServedCheckpoint(tmp_path / "q", read_served_config(tmp_path / "q"))
    found, expected = dict(served.as_served(stored(plain).items())), stored(tmp_path / "q")
    assert set(found) == set(expected) == set(served.sent_shapes())
    for key, tensor in expected.items():
        assert found[key].dtype == tensor.dtype, key
        assert torch.equal(found[key].view(torch.uint8), tensor.view(torch.uint8)), key
    assert len(found) > len(stored(plain))


def test_without_quantisation_the_tensors_are_sent_as_they_are(plain: Path) -> None:
    served = ServedCheckpoint(plain, read_served_config(plain))
    named = list(stored(plain).items())
    assert [(name, id(tensor)) for name, tensor in served.as_served(named)] == [(n, id(t)) for n, t in named]
    assert served.sent_shapes() == HFCheckpoint(plain).shapes


def test_modules_that_a_checkpoint_keeps_stay_unquantised(plain: Path, tmp_path: Path) -> None:
    """The checkpoint decides: here `--ignore` kept every q_proj."""
    quantise(Job(plain, tmp_path / "q"), FORMATS["int4"], ("re:.*q_proj",), lambda text: None)
    served = ServedCheckpoint(tmp_path / "q", read_served_config(tmp_path / "q"))
    found = dict(served.as_served(stored(plain).items()))
    assert "model.layers.0.self_attn.q_proj.weight" in found
    assert "model.layers.0.self_attn.k_proj.weight_packed" in found


def test_what_is_not_trained_is_carried_and_not_sent(tmp_path: Path) -> None:
    """A tied model that stores its output layer too, and next-token heads behind the decoder."""
    folder = make_hf_model(tmp_path / "hf", tie_word_embeddings=True)
    config = json.loads((folder / "config.json").read_text())
    tensors = stored(folder)
    extra = {"lm_head.weight": tensors["model.embed_tokens.weight"].clone(), "mtp.fc.weight": torch.ones(2, 2)}
    save_file({**tensors, **extra}, folder / "model.safetensors")
    served = ServedCheckpoint(folder, read_served_config(folder))
    assert "lm_head.weight" not in served.sent_shapes()
    assert config["tie_word_embeddings"]
    # This family has no next-token heads, so the name is not excused: an update would have to bring it.
    assert "mtp.fc.weight" in served.sent_shapes()
    assert list(served.carried()) == []


def test_an_unknown_format_is_refused_by_its_name(plain: Path, tmp_path: Path) -> None:
    folder = tmp_path / "q"
    folder.mkdir()
    values = json.loads((plain / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(QuantiseError, match="quant_method is 'awq'"):
        ServedCheckpoint(folder, read_served_config(folder))
