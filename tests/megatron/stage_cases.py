"""Body of the processes that gather the weights of their pipeline stage."""

from __future__ import annotations

from pathlib import Path

import torch

from slime.megatron.parallel import ParallelSettings


def gather_stage(rank: int, ranks: int, port: int, folder: Path, parallel: ParallelSettings, out: Path) -> None:
    """Load a checkpoint as one rank, and write what the rank gathers of its stage, in order of arrival."""
    from slime.megatron import process
    from slime.megatron.gather import gather_stage_tensors
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings
    from slime.weights.hf_config import read_config

    torch.set_num_threads(1)
    process.start(process.ProcessSpec("cpu", rank, ranks, master_port=port, parallel=parallel))
    config = read_config(folder)
    model = build_model(config, torch.device("cpu"), ComputeSettings(), parallel)
    load_hf_weights(model, config, folder)
    found = [(name, tensor.clone()) for name, tensor in gather_stage_tensors(model, config)]
    torch.save(found, out / f"rank{rank}.pt")
    process.stop()
