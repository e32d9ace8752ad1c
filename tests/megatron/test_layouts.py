"""Every family at every parallel layout: the loss and all gradients are those of one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from slime.megatron.parallel import ParallelSettings
from slime.ports import free_port

from .families import FAMILIES, make_family
from .layout_cases import Job, run_layouts
from .mtp_cases import WITH_MTP, make_with_mtp
from .rank_processes import run_ranks

pytestmark = pytest.mark.runtime
LOSS_TOLERANCE = 2e-4
"""Of a loss of several hundred, in float32; the largest seen was 3.4e-5."""
GRADIENT_TOLERANCE = 1e-3
"""Of each tensor, relative to its norm; the largest seen was 9e-5 (qwen3_5_moe_text, tensor parallel)."""
WITH_EXPERTS = [name for name, (_, values) in FAMILIES.items() if "num_experts_per_tok" in values]
TWO_RANKS = {
    "tensor": ParallelSettings(tensor=2, sequence_parallel=True),
    "pipeline": ParallelSettings(pipeline=2),
    "context": ParallelSettings(context=2),
    "contiguous": ParallelSettings(context=2, contiguous_context=True),
    "experts": ParallelSettings(expert=2),
    "data": ParallelSettings(),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of every family, with an MTP layer where the family has one."""
    return {
        name: (make_with_mtp if name in WITH_MTP else make_family)(name, tmp_path_factory.mktemp(name))
        for name in FAMILIES
    }


@pytest.fixture(scope="module")
def alone(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Loss and gradients of every family on one process."""
    jobs: list[Job] = [(name, folder, ParallelSettings(), False) for name, folder in folders.items()]
    return compute(1, jobs, tmp_path_factory.mktemp("alone") / "results.pt")


def compute(ranks: int, jobs: Sequence[Job], out: Path) -> dict[str, Any]:
    """Run the jobs on `ranks` processes."""
    run_ranks(run_layouts, ranks, free_port(), list(jobs), out)
    results: dict[str, Any] = torch.load(out, weights_only=True)
    return results


def compare(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Losses, gradients and weights of one job."""
    assert abs(found["loss"] - expected["loss"]) < LOSS_TOLERANCE
    assert set(found["gradients"]) == set(expected["gradients"])
    for name, gradient in expected["gradients"].items():
        gap = float((found["gradients"][name] - gradient).norm())
        assert gap <= GRADIENT_TOLERANCE * float(gradient.norm()) + 1e-6, name
        assert torch.equal(found["weights"][name], expected["weights"][name]), name


@pytest.mark.parametrize("layout", list(TWO_RANKS))
def test_two_ranks_equal_one(layout: str, folders: dict[str, Path], alone: dict[str, Any], tmp_path: Path) -> None:
    names = WITH_EXPERTS if layout == "experts" else list(FAMILIES)
    uneven = ParallelSettings(pipeline=2, first_stage_layers=3)  # five layers; the second stage begins with an indexer
    jobs: list[Job] = [
        (name, folders[name], uneven if (layout, name) == ("pipeline", "glm_moe_dsa") else TWO_RANKS[layout], False)
        for name in names
    ]
    found = compute(2, jobs, tmp_path / "results.pt")
    for name in names:
        compare(found[name], alone[name])


def test_four_ranks_equal_one(folders: dict[str, Path], alone: dict[str, Any], tmp_path: Path) -> None:
    """Two kinds at once, and activations that are computed again."""
    both = {
        "qwen3": ParallelSettings(tensor=2, pipeline=2),
        "qwen2": ParallelSettings(tensor=2, context=2, sequence_parallel=True),
        "glm4_moe": ParallelSettings(tensor=2, pipeline=2, sequence_parallel=True),
        "deepseek_v3": ParallelSettings(expert=2, pipeline=2),
        "qwen3_next": ParallelSettings(context=2, expert=2),
        "glm_moe_dsa": ParallelSettings(
            tensor=2, context=2, contiguous_context=True, sequence_parallel=True, expert=2, expert_tensor=1
        ),
    }
    jobs: list[Job] = [(name, folders[name], parallel, True) for name, parallel in both.items()]
    found = compute(4, jobs, tmp_path / "results.pt")
    for name in both:
        compare(found[name], alone[name])


def test_recomputation_changes_nothing(folders: dict[str, Path], alone: dict[str, Any], tmp_path: Path) -> None:
    jobs: list[Job] = [(name, folder, ParallelSettings(), True) for name, folder in folders.items()]
    found = compute(1, jobs, tmp_path / "results.pt")
    for name in folders:
        compare(found[name], alone[name])
