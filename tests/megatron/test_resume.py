"""A run that was saved at one parallel layout continues at any other as if it had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from slime.ports import free_ports
from slime.weights.tracker import CheckpointError

from .rank_processes import run_ranks
from .resume_cases import CURSOR, LAYOUTS, Job, layouts_of, run_jobs, train

pytestmark = pytest.mark.runtime
METRIC_TOLERANCE = 2e-4
"""Relative, of losses and gradient norms of the two rounds after the checkpoint."""
WEIGHT_TOLERANCE = 1e-5
"""Absolute, after these rounds; each of them moves a weight by about the learning rate, 1e-3."""


def test_every_layout_continues_every_other(hf_folder: Path, tmp_path: Path) -> None:
    kinds: dict[Path, dict[str, Any]] = {
        tmp_path / "adam": {},
        tmp_path / "shared": {"use_distributed_optimizer": True},
    }
    for folder in kinds:
        folder.mkdir()
    saves, resumes = (
        {
            ranks: [
                (folder, flags, source, layout)
                for folder, flags in kinds.items()
                for source, layout in pairs
                if (source if layout is None else layout) in layouts_of(ranks)
            ]
            for ranks in (1, 2)
        }
        for pairs in ([(source, None) for source in LAYOUTS], [(one, other) for one in LAYOUTS for other in LAYOUTS])
    )
    run_jobs(0, 1, hf_folder, free_ports(len(saves[1])), saves[1])
    two: list[Job] = [*saves[2], *resumes[2]]
    run_ranks(run_jobs, 2, hf_folder, free_ports(len(two)), two)
    run_jobs(0, 1, hf_folder, free_ports(len(resumes[1])), resumes[1])
    for ranks, jobs in resumes.items():
        for folder, _, source, layout in jobs:
            for rank in range(ranks):
                compare(folder, source, str(layout), rank)


def compare(folder: Path, source: str, layout: str, rank: int) -> None:
    """A resumed run and the uninterrupted one."""
    found = torch.load(folder / f"{source}-to-{layout}-{rank}.pt", weights_only=True)
    assert (found["step"], found["cursor"], found["own"]) == (1, CURSOR, source == layout)
    # At its own layout each rank continues its own random numbers; at another all continue the first rank's.
    expected = torch.load(folder / f"{source}-{rank if source == layout else 0}.pt", weights_only=True)
    assert torch.equal(found["numbers"], expected["numbers"]), f"{source} to {layout}"
    if source == layout:
        assert found["metrics"] == expected["metrics"]
    for one, other in zip(found["metrics"], expected["metrics"], strict=True):
        assert one["lr"] == other["lr"]
        assert one == pytest.approx(other, rel=METRIC_TOLERANCE, abs=1e-6), f"{source} to {layout}"
    for name, tensor in expected["weights"].items():
        gap = float((found["weights"][name] - tensor).abs().max())
        assert gap <= (0 if source == layout else WEIGHT_TOLERANCE), f"{source} to {layout}: {name} is off by {gap}"


def test_the_other_optimizers_state_is_refused_with_the_flag(make_trainer: Any, tmp_path: Path) -> None:
    roots = {shared: str(tmp_path / str(shared)) for shared in (False, True)}
    for shared, root in roots.items():
        trainer = make_trainer(save=root, use_distributed_optimizer=shared)
        trainer.load()
        train(trainer, (0,))
        trainer.save(0)
    with pytest.raises(CheckpointError, match=r"saved with --use-distributed-optimizer.*: give --use-dist"):
        make_trainer(load=roots[True]).load()
    with pytest.raises(CheckpointError, match=r"saved without --use-dist.*: leave out --use-dist.*--ref-load"):
        make_trainer(load=roots[False], use_distributed_optimizer=True).load()
