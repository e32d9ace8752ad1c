"""`slime inspect` of whole and of damaged checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from slime.cli import main

from ..megatron.families import make_family
from .convert_cases import convert

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_family("qwen3_moe", tmp_path_factory.mktemp("inspect") / "hf", moe_intermediate_size=32)


def facts(capsys: pytest.CaptureFixture[str], folder: Path, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["inspect", str(folder), "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def parameters(folder: Path) -> int:
    """As transformers counts them."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), None),
        (("hf-to-fp8",), "FP8 E4M3, one scale a 128 x 128 block"),
        (("hf-to-fp8", "--strategy", "channel"), "FP8 E4M3, one scale a channel"),
        (("hf-to-int4", "--asymmetric"), "INT4 in groups of 32, asymmetric"),
    ],
)
def test_hugging_face(
    words: tuple[str, ...], said: str | None, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = hf
    if words:
        folder = tmp_path / "quantised"
        assert convert(*words, "--hf-checkpoint", hf, "--save", folder) == 0
    found = facts(capsys, folder)
    assert (found["kind"], found["model_type"], found["quantisation"]) == ("huggingface", "qwen3_moe", said)
    assert found["parameters"] == parameters(hf)
    assert (found["missing"], found["surplus"], found["problems"]) == ([], [], [])
    assert found["dimensions"]["experts"]["count"] == 8
    assert main(["inspect", str(folder)]) == 0
    text = capsys.readouterr().out
    assert f"parameters    {parameters(hf):,} in" in text
    assert "experts       2 of 8, 32 wide, in 4 layers" in text


def test_damage_is_named(hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_bytes((hf / "config.json").read_bytes())
    tensors = load_file(hf / "model.safetensors")
    tensors["extra.weight"] = tensors.pop("model.norm.weight")
    save_file(tensors, tmp_path / "a.safetensors")
    found = facts(capsys, tmp_path, 1)
    assert (found["missing"], found["surplus"]) == (["model.norm.weight"], ["extra.weight"])
    (tmp_path / "b.safetensors").write_bytes(b"\x10")
    names = {"x": "a.safetensors", "y": "b.safetensors", "z": "c.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    found = facts(capsys, tmp_path, 1)
    # What the damaged shard holds is not known: nothing is called missing.
    assert (found["missing"], found["surplus"]) == ([], [])
    states = {one["name"]: one["state"] for one in found["shards"]}
    assert (states["a.safetensors"], states["c.safetensors"]) == ("healthy", "missing")
    assert states["b.safetensors"].startswith("damaged or cut off")
    assert "c.safetensors is missing" in found["problems"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ('{"model_type": "qwen3", "num_hidden_layers": 1000000000000}', "num_hidden_layers"),
        ("[]", "must hold one JSON object"),
        ("{", "is not JSON"),
        (None, "does not exist"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_line(
    values: str | None, said: str, hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, also for a number of layers that no memory would hold."""
    if values is not None:
        whole = json.loads((hf / "config.json").read_text()) if "qwen3" in values else None
        (tmp_path / "config.json").write_text(json.dumps(whole | json.loads(values)) if whole else values)
    (tmp_path / "model.safetensors").write_bytes((hf / "model.safetensors").read_bytes())
    found = facts(capsys, tmp_path, 1)
    assert len(found["problems"]) == 1
    assert said in found["problems"][0]
    assert convert("hf-to-megatron", "--hf-checkpoint", tmp_path, "--save", tmp_path / "out") == 2
    assert said in capsys.readouterr().err


def test_megatron(hf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "dist"
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", root) == 0
    for folder in (root, root / "release"):
        found = facts(capsys, folder)
        assert found["kind"] == "megatron"
        (one,) = found["checkpoints"]
        assert (one["parameters"], one["step"], one["ranks"], one["optimizer"]) == (parameters(hf), None, 1, False)
        assert list(one["source"]["shards"]) == ["model.safetensors"]
    assert main(["inspect", str(root)]) == 0
    assert "torch_dist, weights alone, written by 1 rank(s)" in capsys.readouterr().out
    (shard,) = (root / "release").glob("*.distcp")
    shard.write_bytes(shard.read_bytes()[:1000])
    assert "release: __0_0.distcp is cut off: 1000 of at least" in facts(capsys, root, 1)["problems"][0]
    (root / "latest_checkpointed_iteration.txt").write_text("7")
    assert "the tracker names iter_0000007, which is missing" in facts(capsys, root, 1)["problems"]


def test_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 2
    assert "holds no checkpoint" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    assert "is no folder" in capsys.readouterr().err
