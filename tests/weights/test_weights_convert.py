"""`slime convert`, both directions, through its command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from slime.weights.hf_config import read_config

from ..megatron.families import make_family
from .convert_cases import convert

pytestmark = pytest.mark.runtime


def make_model(folder: Path, kind: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> Path:
    import transformers

    torch.manual_seed(seed)
    values = {
        "vocab_size": 40,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    if kind == "qwen2":
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**values, tie_word_embeddings=True))
    elif kind == "qwen3":
        model = transformers.Qwen3ForCausalLM(
            transformers.Qwen3Config(**values, head_dim=16, tie_word_embeddings=False)
        )
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**values))
    model.to(dtype).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("kind", "dtype"), [("qwen3", torch.float32), ("qwen3", torch.bfloat16), ("qwen2", torch.bfloat16)]
)
def test_there_and_back_gives_the_same_bytes(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    hf, megatron, back = make_model(tmp_path / "hf", kind, dtype), tmp_path / "dist", tmp_path / "back"
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", megatron, "--device", "cpu") == 0
    assert (megatron / "latest_checkpointed_iteration.txt").read_text() == "release"
    assert sorted(path.name for path in megatron.iterdir()) == ["latest_checkpointed_iteration.txt", "release"]
    assert convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", megatron, "--save", back) == 0
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (back / name).read_bytes() == (hf / name).read_bytes(), name


@pytest.mark.parametrize("family", ["glm4", "deepseek_v3", "glm_moe_dsa", "qwen3_next"])
def test_there_and_back_gives_the_same_file_of_every_kind_of_family(family: str, tmp_path: Path) -> None:
    """In bfloat16, with next-token heads that are carried through."""
    hf, megatron, back = tmp_path / "hf", tmp_path / "dist", tmp_path / "back"
    make_family(family, hf)
    config = json.loads((hf / "config.json").read_text(encoding="utf-8"))
    (hf / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}), encoding="utf-8")
    tensors = {
        name: tensor if "e_score_correction_bias" in name else tensor.bfloat16()
        for name, tensor in load_file(hf / "model.safetensors").items()
    }
    heads = [f"{prefix}eh_proj.weight" for prefix in read_config(hf).untrained]
    tensors |= {name: torch.randn(4, 8).bfloat16() for name in heads}
    save_file(tensors, hf / "model.safetensors", metadata={"format": "pt"})
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", megatron) == 0
    assert convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", megatron, "--save", back) == 0
    assert (back / "model.safetensors").read_bytes() == (hf / "model.safetensors").read_bytes()


def test_a_conversion_is_done_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf, megatron = make_model(tmp_path / "hf", "qwen3"), tmp_path / "dist"
    words = ("hf-to-megatron", "--hf-checkpoint", hf, "--save", megatron)
    assert convert(*words) == 0
    written = (megatron / "release" / "slime.json").stat().st_mtime_ns
    assert convert(*words) == 0
    assert "left as it is" in capsys.readouterr().out
    assert (megatron / "release" / "slime.json").stat().st_mtime_ns == written
    make_model(hf, "qwen3", seed=1)
    assert convert(*words) == 2
    assert "converted from other files" in capsys.readouterr().err
    assert convert(*words, "--force") == 0
    (megatron / "latest_checkpointed_iteration.txt").write_text("12")
    assert convert(*words, "--force") == 2
    assert "checkpoints of a run (the latest is step 12)" in capsys.readouterr().err


def test_an_unknown_family_is_refused_with_those_that_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hf = make_model(tmp_path / "hf", "qwen3")
    config = json.loads((hf / "config.json").read_text())
    (hf / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", tmp_path / "dist") == 2
    error = capsys.readouterr().err
    assert "model_type is 'gpt2'" in error and "supported: llama, qwen2, qwen3" in error
    assert not (tmp_path / "dist").exists()


def test_what_is_missing_is_said_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf = make_model(tmp_path / "hf", "qwen3")
    config = json.loads((hf / "config.json").read_text())
    (hf / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", tmp_path / "dist") == 2
    assert "missing: model.layers.2.input_layernorm.weight" in capsys.readouterr().err
    (hf / "config.json").write_text(json.dumps(config))
    assert (
        convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", tmp_path / "dist", "--save", tmp_path / "back") == 2
    )
    assert "holds no Megatron checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "back").exists() and not (tmp_path / "dist").exists()
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "mine.txt").write_text("keep")
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", tmp_path / "dist") == 0
    assert (
        convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", tmp_path / "dist", "--save", tmp_path / "back") == 2
    )
    assert "not empty" in capsys.readouterr().err
    assert (tmp_path / "back" / "mine.txt").read_text() == "keep"


def test_several_processes_without_torchrun_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    hf = make_model(tmp_path / "hf", "qwen3")
    capsys.readouterr()
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", tmp_path / "dist") == 2
    assert "WORLD_SIZE is 8, but RANK is not set; use torchrun" in capsys.readouterr().err
    monkeypatch.delenv("WORLD_SIZE")
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", tmp_path / "dist") == 0
    monkeypatch.setenv("WORLD_SIZE", "8")
    words = ("megatron-to-hf", "--hf-checkpoint", hf, "--load", tmp_path / "dist", "--save", tmp_path / "back")
    assert convert(*words) == 2
    assert "WORLD_SIZE is 8, but RANK is not set; use torchrun" in capsys.readouterr().err


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_conversion_takes_away_what_it_did_not_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf, megatron = make_model(tmp_path / "hf", "qwen3"), tmp_path / "runs" / "dist"
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", hf) == 2
    assert "is a Hugging Face checkpoint (it has config.json)" in capsys.readouterr().err
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", megatron) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("keep")
    before = contents(tmp_path)
    words = ("megatron-to-hf", "--hf-checkpoint", hf, "--load", megatron, "--force", "--save")
    for save, reason in (
        (megatron, "--save and --load are the same folder"),
        (megatron / "release", "lies inside --load"),
        (megatron.parent, "contains --load"),
        (hf, "--save and --hf-checkpoint are the same folder"),
        (hf / ".." / "hf", "--save and --hf-checkpoint are the same folder"),
        (tmp_path, "contains --load"),
        (tmp_path / "mine", "was not made by this command"),
    ):
        assert convert(*words, save) == 2
        assert reason in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_force_replaces_an_earlier_conversion(tmp_path: Path) -> None:
    hf, megatron, back = make_model(tmp_path / "hf", "qwen3"), tmp_path / "dist", tmp_path / "back"
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", megatron) == 0
    words = ("megatron-to-hf", "--hf-checkpoint", hf, "--load", megatron, "--save", back)
    assert convert(*words) == 0
    (back / "model.safetensors").write_bytes(b"damaged")
    assert convert(*words) == 2
    assert convert(*words, "--force") == 0
    assert (back / "model.safetensors").read_bytes() == (hf / "model.safetensors").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "dist", "hf"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf = make_model(tmp_path / "hf", "qwen3")
    words = ("hf-to-megatron", "--hf-checkpoint", hf, "--save", tmp_path / "dist", "--device", "cuda")
    capsys.readouterr()
    assert convert(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "this process sees no GPU; without one, use --device cpu" in error
    assert not (tmp_path / "dist").exists()
