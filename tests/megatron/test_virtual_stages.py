"""Several parts of the model on each rank of a pipeline: loss, gradients, training and checkpoints of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from slime.megatron.model_settings import ComputeSettings, transformer_config
from slime.megatron.parallel import LayoutError, ParallelSettings
from slime.ports import free_port
from slime.weights.hf_config import read_config

from .families import make_family
from .layout_cases import Job, run_layouts
from .megatron_cases import make_config, make_hf_model, train_one_rank
from .mtp_cases import make_with_mtp
from .rank_processes import run_ranks
from .test_layouts import compare

pytestmark = pytest.mark.runtime
TWO, THREE = ParallelSettings(pipeline=2, virtual=2), ParallelSettings(pipeline=3, virtual=2)
ALONE = ParallelSettings()


def compute(ranks: int, jobs: list[Job], out: Path) -> dict[str, Any]:
    run_ranks(run_layouts, ranks, free_port(), jobs, out)
    results: dict[str, Any] = torch.load(out, weights_only=True)
    return results


def test_loss_and_gradients(tmp_path: Path) -> None:
    """Micro-batches of different widths; tied embeddings, experts, linear attention, MTP, recomputation."""
    folders = {"qwen2": make_family("qwen2", tmp_path / "qwen2")}
    folders |= {name: make_with_mtp(name, tmp_path / name) for name in ("glm4_moe", "qwen3_5_text")}
    six = make_with_mtp("glm4_moe", tmp_path / "six", num_hidden_layers=6)
    alone = compute(1, [(name, one, ALONE, False) for name, one in [*folders.items(), ("six", six)]], tmp_path / "1.pt")
    two = compute(2, [(name, one, TWO, name == "glm4_moe") for name, one in folders.items()], tmp_path / "2.pt")
    three = compute(3, [("six", six, THREE, False)], tmp_path / "3.pt")
    for name, found in {**two, **three}.items():
        compare(found, alone[name])


def test_training(tmp_path: Path) -> None:
    """Log-prob passes with an odd number of micro-batches, several steps, a refused one, and a checkpoint."""
    from slime.megatron.trainer import MegatronTrainer

    hf = make_hf_model(tmp_path / "hf", num_hidden_layers=4)
    flags = {"pipeline_model_parallel_size": 2, "num_virtual_stages_per_pipeline_rank": 2, "max_tokens_per_gpu": 24}
    for ranks, chosen in ((1, {}), (2, flags)):
        (tmp_path / str(ranks)).mkdir()
        run_ranks(train_one_rank, ranks, free_port(), hf, tmp_path / str(ranks), chosen)
    one, several = (torch.load(tmp_path / str(ranks) / f"rank0-of-{ranks}.pt", weights_only=True) for ranks in (1, 2))
    for expected, found in zip(one["metrics"], several["metrics"], strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    for expected, found in zip(one["log_probs"], several["log_probs"], strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    for name, tensor in one["weights"].items():
        torch.testing.assert_close(several["weights"][name], tensor, rtol=0, atol=1e-5)
    assert "sample 101 (advantage inf at response token 0)" in several["error"]
    # One process reads what the two wrote, with the optimizer's state.
    trainer = MegatronTrainer(make_config(hf, load=str(tmp_path / "2" / "saved")))
    try:
        assert trainer.load().step == 1
        for name, tensor in trainer.named_hf_tensors():
            assert torch.equal(tensor, several["weights"][name]), name
    finally:
        trainer.close()


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        (ParallelSettings(virtual=2), "need a pipeline of at least 2 ranks"),
        (ParallelSettings(pipeline=2, virtual=3), "4 layers do not divide into 6 parts"),
        (ParallelSettings(pipeline=3, virtual=2, first_stage_layers=1), "1 layers do not divide into 2 parts"),
    ],
)
def test_sizes_that_do_not_fit(parallel: ParallelSettings, message: str, tmp_path: Path) -> None:
    config = read_config(make_family("qwen3", tmp_path))
    with pytest.raises(LayoutError, match=message):
        transformer_config(config, parallel, ComputeSettings())
