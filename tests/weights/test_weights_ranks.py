"""`slime convert` in several processes, both ways: every layout gives the weights of one process, to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from slime.ports import free_ports
from slime.weights.hf_config import config_from_dict, read_config
from slime.weights.launch import ConversionError, Layout

from ..megatron.families import make_family
from ..megatron.rank_processes import run_ranks
from .convert_cases import convert, export_rank, run_rank

pytestmark = pytest.mark.runtime
TENSOR = ("--tensor-model-parallel-size", "2")
EXPERT = ("--expert-model-parallel-size", "2")
# An odd vocabulary is padded at two tensor-parallel ranks; qwen2's embedding is tied, and both ends of a pipeline have
# it; glm_moe_dsa has five layers, and a stage begins with one that chooses its own keys.
UNEVEN = ("--pipeline-model-parallel-size", "2", "--decoder-first-pipeline-num-layers", "3")
CASES = {
    "tensor": ("glm4_moe", TENSOR),
    "tensor-tied": ("qwen2", TENSOR),
    "tensor-latent": ("deepseek_v3", TENSOR),
    "tensor-linear": ("qwen3_next", TENSOR),
    "pipeline": ("glm4", ("--pipeline-model-parallel-size", "2")),
    "pipeline-tied-by-itself": ("qwen2", ()),
    "pipeline-uneven": ("glm_moe_dsa", UNEVEN),
    "experts": ("qwen3_moe", EXPERT),
    "data": ("qwen3", ("--tensor-model-parallel-size", "1")),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    names = sorted({family for family, _ in CASES.values()})
    return {name: make_family(name, tmp_path_factory.mktemp(name) / "hf", vocab_size=97) for name in names}


@pytest.fixture(scope="module")
def converted(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every case, converted by two processes."""
    saves = {case: tmp_path_factory.mktemp(case) / "dist" for case in CASES}
    jobs = [
        ("hf-to-megatron", "--hf-checkpoint", str(folders[family]), "--save", str(saves[case]), *sizes)
        for case, (family, sizes) in CASES.items()
    ]
    run_ranks(run_rank, 2, free_ports(len(jobs)), jobs)
    return saves


@pytest.fixture(scope="module")
def exported(
    folders: dict[str, Path], converted: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Every case, turned back by two processes, in small files."""
    saves = {case: tmp_path_factory.mktemp(case) / "back" for case in CASES}
    jobs = [(folders[family], converted[case], saves[case]) for case, (family, _) in CASES.items()]
    run_ranks(export_rank, 2, free_ports(len(jobs)), jobs)
    return saves


@pytest.mark.parametrize("case", list(CASES))
def test_one_process_reads_what_two_wrote(
    case: str, folders: dict[str, Path], converted: dict[str, Path], tmp_path: Path
) -> None:
    hf, back = folders[CASES[case][0]], tmp_path / "back"
    assert convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", converted[case], "--save", back) == 0
    assert (back / "model.safetensors").read_bytes() == (hf / "model.safetensors").read_bytes()


@pytest.mark.parametrize("case", list(CASES))
def test_two_processes_read_what_two_wrote(case: str, folders: dict[str, Path], exported: dict[str, Path]) -> None:
    hf, back = folders[CASES[case][0]], exported[case]
    original = load_file(hf / "model.safetensors")
    files = sorted(back.glob("*.safetensors"))
    found = {name: tensor for path in files for name, tensor in load_file(path).items()}
    assert len(files) > 2 and found.keys() == original.keys()
    for name, tensor in original.items():
        assert found[name].dtype is tensor.dtype and torch.equal(found[name], tensor), name
    index = json.loads((back / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {name: path.name for path in files for name in load_file(path)}
    assert index["metadata"]["total_size"] == sum(one.numel() * one.element_size() for one in found.values())


def test_torchrun_starts_it(folders: dict[str, Path], tmp_path: Path) -> None:
    """As the experiment's shell does; a second time it finds the work done."""
    hf, back, dist = folders["qwen2"], tmp_path / "back", tmp_path / "dist"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    words = [*torchrun, "-m", "slime", "convert", "hf-to-megatron", "--hf-checkpoint", str(hf), "--save", str(dist)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("written") == 1
    again = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    assert (again.returncode, again.stdout.count("left as it is")) == (0, 1), again.stderr
    assert convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", dist, "--save", back) == 0
    assert (back / "model.safetensors").read_bytes() == (hf / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("layers", "world", "stages", "last"),
    [(40, 8, 8, None), (61, 8, 8, 5), (47, 8, 8, 5), (4, 8, 4, None), (5, 4, 2, 2), (64, 1, 1, None)],
)
def test_processes_become_stages(layers: int, world: int, stages: int, last: int | None) -> None:
    """By hand: 61 layers in 8 stages are 7 of 8 and one of 5; 5 in 4 would leave the last of 2, 2, 2 and -1."""
    parallel = Layout().parallel(config_from_dict({**LLAMA, "num_hidden_layers": layers}), world)
    assert (parallel.tensor, parallel.pipeline, parallel.last_stage_layers) == (1, stages, last)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}


def test_processes_that_do_not_divide_are_refused(folders: dict[str, Path]) -> None:
    config = read_config(folders["qwen3_moe"])
    with pytest.raises(ConversionError, match=r"6 process.* do not divide by tensor x pipeline parallel size = 4"):
        Layout(sizes={"tensor": 4}).parallel(config, 6)
    with pytest.raises(ConversionError, match="expert x expert tensor x pipeline parallel size = 8"):
        Layout(sizes={"expert": 8, "expert_tensor": 1}).parallel(config, 4)
