"""Several processes over gloo give what one process gives: data parallel, and one model over several ranks."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from slime.ports import free_port

from .megatron_cases import train_one_rank
from .rank_processes import run_ranks

pytestmark = pytest.mark.runtime


def train(ranks: int, hf: Path, out: Path, **flags: Any) -> list[dict[str, Any]]:
    """What each rank wrote after its two rounds."""
    out.mkdir(exist_ok=True)
    run_ranks(train_one_rank, ranks, free_port(), hf, out, flags)
    return [torch.load(out / f"rank{rank}-of-{ranks}.pt", weights_only=True) for rank in range(ranks)]


@pytest.fixture(scope="module")
def alone(hf_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of one process."""
    return train(1, hf_folder, tmp_path_factory.mktemp("alone"))[0]


LAYOUTS: dict[str, tuple[int, dict[str, Any]]] = {
    "data": (2, {}),
    "tensor": (2, {"tensor_model_parallel_size": 2, "sequence_parallel": True}),
    "pipeline": (2, {"pipeline_model_parallel_size": 2, "recompute_granularity": "full"}),
    "context": (2, {"context_parallel_size": 2}),
    "tensor and data": (4, {"tensor_model_parallel_size": 2}),
    "data, shared optimizer": (2, {"use_distributed_optimizer": True}),
    "tensor and data, shared optimizer": (4, {"tensor_model_parallel_size": 2, "use_distributed_optimizer": True}),
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_several_ranks_equal_one(layout: str, alone: dict[str, Any], hf_folder: Path, tmp_path: Path) -> None:
    ranks, flags = LAYOUTS[layout]
    results = train(ranks, hf_folder, tmp_path / "several", **flags)
    for result in results:
        for one, other in zip(alone["metrics"], result["metrics"], strict=True):
            assert other == pytest.approx(one, rel=1e-4, abs=1e-5)
        for one, other in zip(alone["log_probs"], result["log_probs"], strict=True):
            torch.testing.assert_close(other, one, rtol=0, atol=2e-5)
        for name, tensor in alone["weights"].items():
            assert torch.equal(result["weights"][name], results[0]["weights"][name]), name
            torch.testing.assert_close(result["weights"][name], tensor, rtol=0, atol=1e-5)
        # Sample 101 is broken; every rank refuses and names it, so none waits for another.
        assert "sample 101 (advantage inf at response token 0)" in result["error"]


def test_a_busy_port_is_reported(hf_folder: Path) -> None:
    from slime.megatron.process import ProcessSpec, TrainerProcessError, start

    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = int(holder.getsockname()[1])
        with pytest.raises(TrainerProcessError, match=rf"rank 0 of 2 cannot meet the others at 127\.0\.0\.1:{port}"):
            start(ProcessSpec(device="cpu", rank=0, world_size=2, master_port=port))
    with pytest.raises(TrainerProcessError, match="rank 1 of 2 cannot meet"):
        start(ProcessSpec(device="cpu", rank=1, world_size=2, master_port=port, timeout_minutes=0.02))
