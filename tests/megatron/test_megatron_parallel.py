"""Two data-parallel processes over gloo give what one process gives."""

from __future__ import annotations

import multiprocessing
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from megatron_cases import train_one_rank

pytestmark = pytest.mark.runtime


def run_ranks(ranks: int, hf: Path, out: Path) -> list[dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=train_one_rank, args=(rank, ranks, port, hf, out, True)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        if process.is_alive():
            process.kill()
        assert process.exitcode == 0
    return [torch.load(out / f"rank{rank}-of-{ranks}.pt", weights_only=True) for rank in range(ranks)]


def test_two_ranks_equal_one(hf_folder: Path, tmp_path: Path) -> None:
    (alone,) = run_ranks(1, hf_folder, tmp_path)
    pair = run_ranks(2, hf_folder, tmp_path)
    for metrics in (pair[0]["metrics"], pair[1]["metrics"]):
        assert len(metrics) == 2
        for one, other in zip(alone["metrics"], metrics, strict=True):
            assert other == pytest.approx(one, rel=1e-4, abs=1e-5)
    for name, tensor in alone["weights"].items():
        assert torch.equal(pair[0]["weights"][name], pair[1]["weights"][name]), name
        torch.testing.assert_close(pair[0]["weights"][name], tensor, rtol=0, atol=1e-5)
    # Sample 101 is broken on one rank; every rank refuses and names it, so none waits for the other.
    for result in (alone, *pair):
        assert "sample 101 (advantage inf at response token 0)" in result["error"]


def test_a_busy_port_is_reported(hf_folder: Path) -> None:
    from slime.megatron.process import ProcessSpec, TrainerProcessError, start

    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = int(holder.getsockname()[1])
        with pytest.raises(TrainerProcessError, match=rf"rank 0 of 2 cannot meet the others at 127\.0\.0\.1:{port}"):
            start(ProcessSpec(device="cpu", rank=0, world_size=2, master_port=port))
    with pytest.raises(TrainerProcessError, match="rank 1 of 2 cannot meet"):
        start(ProcessSpec(device="cpu", rank=1, world_size=2, master_port=port, timeout_minutes=0.02))
