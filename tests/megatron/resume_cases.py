"""Runs that are saved at one parallel layout and resumed at others; the bodies of their processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .megatron_cases import make_batch, make_config, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

CURSOR = {"epoch": 1, "offset": 32}
LAYOUTS: dict[str, dict[str, Any]] = {
    "alone": {},
    "data": {},
    "tensor": {"tensor_model_parallel_size": 2, "sequence_parallel": True},
    "pipeline": {"pipeline_model_parallel_size": 2},
}


def layouts_of(ranks: int) -> list[str]:
    """The layouts that `ranks` processes make."""
    return [layout for layout in LAYOUTS if (layout == "alone") == (ranks == 1)]


@contextmanager
def trainer_at(
    layout: str, rank: int, ranks: int, port: int, hf: Path, root: Path, flags: Mapping[str, Any]
) -> Iterator[MegatronTrainer]:
    """A trainer that saves to `root` and resumes from there; `load` comes next."""
    from slime.megatron.trainer import MegatronTrainer

    config = make_config(hf, actor_num_gpus_per_node=ranks, save=str(root), load=str(root), **LAYOUTS[layout], **flags)
    trainer = MegatronTrainer(config, rank, ranks, "127.0.0.1", port)
    yield trainer
    trainer.close()


def train(trainer: MegatronTrainer, seeds: Sequence[int]) -> list[dict[str, float]]:
    """One round of 16 samples for each seed; their metrics."""
    from slime.config.layout import train_rank

    rank, copies = train_rank(trainer.config, trainer.rank).data, trainer.config.data_parallel_size
    return [trainer.train(make_batch(make_sequences(16, seed), 1, 4, rank, copies)) for seed in seeds]


def weights_of(trainer: MegatronTrainer) -> dict[str, torch.Tensor]:
    """A copy of all weights; every rank has all of them."""
    return {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}


def save_run(rank: int, ranks: int, hf: Path, port: int, out: Path, layout: str, flags: Mapping[str, Any]) -> None:
    """Two rounds, a checkpoint, two rounds more, whose results are written beside it."""
    with trainer_at(layout, rank, ranks, port, hf, out / layout, flags) as trainer:
        trainer.load()
        train(trainer, (0, 1))
        torch.manual_seed(100 + rank)
        trainer.save(1, CURSOR)
        numbers = torch.rand(4)
        found = {"metrics": train(trainer, (2, 3)), "weights": weights_of(trainer), "numbers": numbers}
        torch.save(found, out / f"{layout}-{rank}.pt")


def resume_run(
    rank: int, ranks: int, hf: Path, port: int, out: Path, source: str, layout: str, flags: Mapping[str, Any]
) -> None:
    """From the checkpoint of `source`, at `layout`, the two rounds that follow it."""
    with trainer_at(layout, rank, ranks, port, hf, out / source, flags) as trainer:
        loaded = trainer.load()
        numbers = torch.rand(4)
        found = {"metrics": train(trainer, (2, 3)), "weights": weights_of(trainer), "numbers": numbers}
        found |= {"step": loaded.step, "cursor": loaded.data_cursor, "own": loaded.rng_restored}
        torch.save(found, out / f"{source}-to-{layout}-{rank}.pt")


def run_jobs(rank: int, ranks: int, hf: Path, ports: Sequence[int], jobs: Sequence[Job]) -> None:
    """Every job in turn; one of `ranks` processes."""
    torch.set_num_threads(1)
    for (out, flags, source, layout), port in zip(jobs, ports, strict=True):
        if layout is None:
            save_run(rank, ranks, hf, port, out, source, flags)
        else:
            resume_run(rank, ranks, hf, port, out, source, layout, flags)


Job = tuple[Path, Mapping[str, Any], str, str | None]
"""Folder, flags, the layout that saves, and the layout that resumes; None saves."""
