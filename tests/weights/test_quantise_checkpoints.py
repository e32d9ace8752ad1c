"""Whole checkpoints to FP8 and INT4 and back, through the command line; transformers loads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from slime.weights.quantise import plan, work
from slime.weights.quantise.formats import Fp8Format, Int4Format

from ..megatron.families import make_family
from .convert_cases import convert

pytestmark = pytest.mark.runtime
WIDE = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 97}


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows and columns that are no multiples of 128, in bfloat16."""
    return in_bfloat16(make_family("qwen3", tmp_path_factory.mktemp("dense") / "hf", **WIDE))


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes: dict[str, Any] = {**WIDE, "moe_intermediate_size": 32}
    return in_bfloat16(make_family("glm4_moe", tmp_path_factory.mktemp("experts") / "hf", **changes))


def in_bfloat16(folder: Path) -> Path:
    path = folder / "model.safetensors"
    tensors = {
        name: tensor if "correction_bias" in name else tensor.bfloat16() for name, tensor in load_file(path).items()
    }
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def read(folder: Path) -> dict[str, Tensor]:
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def config_of(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return values


TO_FP8 = ("hf-to-fp8", "--strategy", "block", "--block-size", "128", "128")  # as the experiment's shell writes it
KEPT = ("embed_tokens", "lm_head", "norm", "mlp.gate.", "correction_bias", ".bias")


def test_fp8_keeps_what_must_be_exact(experts: Path, tmp_path: Path) -> None:
    save = tmp_path / "fp8"
    assert convert(*TO_FP8, "--hf-checkpoint", experts, "--save", save) == 0
    before, after = read(experts), read(save)
    for name, tensor in before.items():
        if any(word in name for word in KEPT):
            assert torch.equal(after[name], tensor), name
        else:
            assert after[name].dtype is torch.float8_e4m3fn, name
            scales = after[f"{name.removesuffix('.weight')}.weight_scale_inv"]
            assert scales.dtype is torch.float32
            assert list(scales.shape) == [-(-size // 128) for size in tensor.shape]
    described = config_of(save)["quantization_config"]
    assert described["weight_block_size"] == [128, 128]
    assert (described["quant_method"], described["fmt"]) == ("fp8", "e4m3")
    assert {"lm_head", "model.layers.1.mlp.gate"} <= set(described["modules_to_not_convert"])
    assert (save / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("words", "fmt"),
    [
        (TO_FP8, Fp8Format()),
        (("hf-to-fp8", "--scale-fmt", "ue8m0"), Fp8Format(power_of_two=True)),
        (("hf-to-int4",), Int4Format()),
        (("hf-to-int4", "--asymmetric"), Int4Format(32, False)),
    ],
    ids=["block", "ue8m0", "int4", "int4-asymmetric"],
)
def test_transformers_computes_what_we_turn_back(
    words: tuple[str, ...], fmt: Fp8Format | Int4Format, dense: Path, tmp_path: Path
) -> None:
    """Logits of the quantised checkpoint, loaded by transformers' own integration, and of our bfloat16 copy of it."""
    import transformers

    save, back = tmp_path / "quantised", tmp_path / "back"
    assert convert(*words, "--hf-checkpoint", dense, "--save", save) == 0
    direction = "fp8-to-bf16" if isinstance(fmt, Fp8Format) else "int4-to-bf16"
    assert convert(direction, "--hf-checkpoint", save, "--save", back) == 0
    assert "quantization_config" not in config_of(back)
    original, restored = read(dense), read(back)
    assert {name: tensor.shape for name, tensor in restored.items()} == {
        name: tensor.shape for name, tensor in original.items()
    }
    ids = torch.arange(2, 34)[None]
    logits = []
    for folder in (save, back):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        with torch.no_grad():
            logits.append(model.eval()(ids).logits.float().log_softmax(-1))
    exact = transformers.AutoModelForCausalLM.from_pretrained(dense, dtype=torch.bfloat16)
    with torch.no_grad():
        true = exact.eval()(ids).logits.float().log_softmax(-1)
    lost = float((logits[1] - true).abs().mean())
    # Both round products of the same numbers to bfloat16, at different places.
    assert float((logits[0] - logits[1]).abs().mean()) < max(0.25 * lost, 1e-6)


@pytest.mark.parametrize("strategy", ["channel", "tensor"])
def test_transformers_reads_the_weights_that_we_turn_back(strategy: str, dense: Path, tmp_path: Path) -> None:
    """Its forward pass rounds activations to FP8 too, so weights are compared; it keeps scales in bfloat16."""
    import transformers

    save, back = tmp_path / "fp8", tmp_path / "back"
    assert convert("hf-to-fp8", "--strategy", strategy, "--hf-checkpoint", dense, "--save", save) == 0
    assert convert("fp8-to-bf16", "--hf-checkpoint", save, "--save", back) == 0
    plain = transformers.CompressedTensorsConfig(run_compressed=False)
    model = transformers.AutoModelForCausalLM.from_pretrained(save, dtype=torch.bfloat16, quantization_config=plain)
    found = dict(model.named_parameters())
    for name, ours in read(back).items():
        gap = (found[name].float() - ours.float()).abs()
        assert bool((gap <= ours.float().abs() * 2**-7).all()), name


def test_int4_takes_routed_experts_alone(experts: Path, tmp_path: Path) -> None:
    save = tmp_path / "int4"
    assert convert("hf-to-int4", "--hf-checkpoint", experts, "--save", save) == 0
    packed = {name for name in read(save) if name.endswith("weight_packed")}
    assert len(packed) == 3 * 8 * 3  # three layers of eight experts of three matrices
    assert all(".mlp.experts." in name for name in packed)
    assert "model.layers.0.self_attn.q_proj" in config_of(save)["quantization_config"]["ignore"]


def test_workers_write_the_same_bytes(dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 2**15)
    one, two = tmp_path / "one", tmp_path / "two"
    assert convert(*TO_FP8, "--hf-checkpoint", dense, "--save", one) == 0
    assert convert(*TO_FP8, "--hf-checkpoint", dense, "--save", two, "--workers", "2") == 0
    names = sorted(path.name for path in one.iterdir())
    assert sum(name.endswith(".safetensors") for name in names) > 3
    assert names == sorted(path.name for path in two.iterdir())
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    index = json.loads((one / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(
        tensor.numel() * tensor.element_size() for tensor in read(one).values()
    )


def test_an_interrupted_conversion_goes_on(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed after two shards: nothing stands under the name; the next attempt keeps the two."""
    monkeypatch.setattr(plan, "SHARD_BYTES", 2**15)
    save = tmp_path / "fp8"
    words = (*TO_FP8, "--hf-checkpoint", dense, "--save", save)
    written: list[str] = []
    write = work.write_shard

    def dies(shard: plan.Shard, *rest: Any) -> str:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(shard.name)
        return write(shard, *rest)

    monkeypatch.setattr("slime.weights.quantise.job.write_shard", dies)
    with pytest.raises(KeyboardInterrupt):
        convert(*words)
    assert not save.exists()
    monkeypatch.setattr("slime.weights.quantise.job.write_shard", write)
    capsys.readouterr()
    assert convert(*words) == 0
    assert "2 of them finished before" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["fp8"]
    fresh = tmp_path / "fresh"
    assert convert(*TO_FP8, "--hf-checkpoint", dense, "--save", fresh) == 0
    for path in fresh.iterdir():
        assert (save / path.name).read_bytes() == path.read_bytes(), path.name
    assert convert(*words) == 0
    assert "left as it is" in capsys.readouterr().out


def test_an_attempt_at_something_else_is_not_continued(
    dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = tmp_path / ".out.quantise.partial"
    stage.mkdir()
    (stage / ".slime-convert.json").write_text("{}")
    (stage / "model.safetensors").write_bytes(b"half")
    assert convert("hf-to-int4", "--hf-checkpoint", dense, "--save", tmp_path / "out") == 0
    assert "left by another conversion; started afresh" in capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert convert(*words) == 2
    return capsys.readouterr().err


def test_bad_input_is_refused_by_name(dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save = tmp_path / "out"
    error = refused(capsys, "hf-to-int4", "--group-size", "64", "--hf-checkpoint", dense, "--save", save)
    assert "model.layers.0.mlp.down_proj.weight: 96 input channels are 1.50 groups of 64; possible: 32, 16, 8" in error
    assert "is not quantised" in refused(capsys, "fp8-to-bf16", "--hf-checkpoint", dense, "--save", save)
    words: list[object] = ["hf-to-fp8", "--strategy", "channel", "--block-size", "64", "64"]
    error = refused(capsys, *words, "--hf-checkpoint", dense, "--save", save)
    assert "--block-size belongs to --strategy block" in error
    assert "same folder" in refused(capsys, *TO_FP8, "--hf-checkpoint", dense, "--save", dense)
    words = ["hf-to-fp8", "--ignore", "re:[", "--hf-checkpoint", dense, "--save", save]
    assert "not a regular expression" in refused(capsys, *words)
    words = ["hf-to-fp8", "--ignore", "model", "--hf-checkpoint", dense, "--save", save]
    assert "no weight is left to quantise" in refused(capsys, *words)
    other = tmp_path / "other"
    shutil.copytree(dense, other)
    values = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(values | {"intermediate_size": 128}))
    assert "mlp.down_proj.weight" in refused(capsys, *TO_FP8, "--hf-checkpoint", other, "--save", save)
    assert not save.exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_without_a_scale_are_refused_by_name(
    value: float, dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(shutil.copytree(dense, tmp_path / "hf"))
    tensors = load_file(source / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = value
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    error = refused(capsys, *TO_FP8, "--hf-checkpoint", source, "--save", tmp_path / "out")
    assert "model.layers.1.mlp.up_proj.weight [96, 64] holds 1 value(s) that are NaN or infinite" in error
    assert not (tmp_path / "out").exists()


def test_missing_scales_are_named(dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save = tmp_path / "fp8"
    assert convert(*TO_FP8, "--hf-checkpoint", dense, "--save", save) == 0
    tensors = load_file(save / "model.safetensors")
    del tensors["model.layers.0.mlp.up_proj.weight_scale_inv"]
    save_file(tensors, save / "model.safetensors", metadata={"format": "pt"})
    error = refused(capsys, "fp8-to-bf16", "--hf-checkpoint", save, "--save", tmp_path / "back")
    assert "without the other parts of the weight: model.layers.0.mlp.up_proj.weight_scale_inv" in error
    again = refused(capsys, *TO_FP8, "--hf-checkpoint", save, "--save", tmp_path / "twice")
    assert "is quantised already (fp8)" in again
    assert "use `slime convert fp8-to-bf16`" in refused(
        capsys, "int4-to-bf16", "--hf-checkpoint", save, "--save", tmp_path / "back"
    )


def edited(folder: Path, changes: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps({**config_of(folder), **changes}))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", b"{", "config.json is not JSON"),
        ("config.json", b"[]", "config.json holds a list"),
        ("model.safetensors", b"", "model.safetensors is damaged or cut off"),
        ("model.safetensors", b"\xff" * 64, "model.safetensors is damaged or cut off"),
        ("model.safetensors.index.json", b"\xff", "is not an index of shards"),
        ("model.safetensors.index.json", b"[]", "is not an index of shards"),
        ("model.safetensors.index.json", b'{"weight_map": []}', "is not an index of shards"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": 1}}', "is no name of a file"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "../a"}}', "a shard lies in the folder itself"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "b.safetensors"}}', "1 of 1 shards are missing"),
    ],
)
@pytest.mark.parametrize("direction", ["hf-to-fp8", "hf-to-int4"])
def test_broken_files_are_named(
    direction: str,
    name: str,
    content: bytes,
    said: str,
    dense: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = Path(shutil.copytree(dense, tmp_path / "hf"))
    (source / name).write_bytes(content)
    assert said in refused(capsys, direction, "--hf-checkpoint", source, "--save", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ("fp8", "is not quantised: config.json has no quantization_config"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": []}}, "exactly one group"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": 4}}}, "exactly one group"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "it must be two sizes"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "no weight in that format"),
    ],
)
def test_broken_descriptions_are_named(
    described: Any, said: str, dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(shutil.copytree(dense, tmp_path / "hf"))
    edited(source, {"quantization_config": described})
    words = ("--hf-checkpoint", source, "--save", tmp_path / "out")
    assert said in refused(capsys, "fp8-to-bf16", *words)
    assert "is quantised already" in refused(capsys, "hf-to-fp8", *words)


@pytest.mark.parametrize(
    ("part", "shape", "said"),
    [
        ("weight_shape", (3,), "weight_shape has shape [3]; it must be two numbers"),
        ("weight_packed", (4, 4), "weight_packed [4, 4] and weight_scale"),
        ("weight_zero_point", (1, 1), "weight_zero_point [1, 1] does not fit"),
    ],
)
def test_parts_that_do_not_fit_are_named(
    part: str, shape: tuple[int, ...], said: str, dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save, module = tmp_path / "int4", "model.layers.0.mlp.up_proj"
    assert convert("hf-to-int4", "--asymmetric", "--hf-checkpoint", dense, "--save", save) == 0
    tensors = load_file(save / "model.safetensors")
    tensors[f"{module}.{part}"] = torch.zeros(shape, dtype=tensors[f"{module}.{part}"].dtype)
    save_file(tensors, save / "model.safetensors", metadata={"format": "pt"})
    error = refused(capsys, "int4-to-bf16", "--hf-checkpoint", save, "--save", tmp_path / "back")
    assert f"{module}: {said}" in error
    assert not (tmp_path / "back").exists()


def test_a_result_that_was_damaged_is_not_called_complete(
    dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save = tmp_path / "fp8"
    words = (*TO_FP8, "--hf-checkpoint", dense, "--save", save)
    assert convert(*words) == 0
    whole = (save / "model.safetensors").read_bytes()
    (save / "model.safetensors").write_bytes(whole[:-1])
    assert "replace it with --force" in refused(capsys, *words)
    assert convert(*words, "--force") == 0
    assert (save / "model.safetensors").read_bytes() == whole
