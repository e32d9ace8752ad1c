"""What each pipeline stage hands over: together the checkpoint, each tensor once, experts gathered, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from slime.megatron.parallel import ParallelSettings
from slime.ports import free_port

from .families import make_family
from .rank_processes import run_ranks
from .stage_cases import gather_stage

pytestmark = pytest.mark.runtime

RANKS = 4
PARALLEL = ParallelSettings(pipeline=2, expert=2)


def test_the_stages_together_are_the_checkpoint(tmp_path: Path) -> None:
    """Experts are shared out inside each stage, and the last stage has a copy of the tied embedding."""
    folder = make_family("qwen3_moe", tmp_path / "hf", tie_word_embeddings=True)
    run_ranks(gather_stage, RANKS, free_port(), folder, PARALLEL, tmp_path)
    found = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(RANKS)]
    size = RANKS // PARALLEL.pipeline
    expected = load_file(folder / "model.safetensors")
    sent = [pair for stage in range(PARALLEL.pipeline) for pair in found[stage * size]]
    assert len(sent) == len({name for name, _ in sent})
    assert {name for name, _ in sent} == set(expected)
    for name, tensor in sent:
        assert torch.equal(tensor, expected[name]), name
    for rank in range(RANKS):  # every rank of a stage takes part, and has what its first rank has
        first = found[rank // size * size]
        assert [name for name, _ in found[rank]] == [name for name, _ in first]
        assert all(torch.equal(one, other) for (_, one), (_, other) in zip(found[rank], first, strict=True))
