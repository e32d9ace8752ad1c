"""What every process of a conversion does; spawned by name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from slime.weights.command import add_parser, run
from slime.weights.export import megatron_to_hf

SMALL_SHARD = 2**14

Job = tuple[str, ...]


def convert(*words: object) -> int:
    """Exit status of ``slime convert`` with `words`."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["convert", *map(str, words)]))


def run_rank(rank: int, ranks: int, ports: Sequence[int], jobs: Sequence[Job]) -> None:
    """Run `jobs` as process `rank`, each at a port of its own."""
    for port, job in zip(ports, jobs, strict=True):
        _as_torchrun_does(rank, ranks, port)
        status = convert(*job)
        if status:
            raise SystemExit(f"{job}: status {status}")


def export(hf: Path, load: Path, save: Path) -> list[str]:
    """``slime convert megatron-to-hf`` with files of 16 KiB, smaller than the command line lets them be; its report."""
    lines: list[str] = []
    megatron_to_hf(hf, load, save, SMALL_SHARD, False, lines.append)
    return lines


def export_rank(rank: int, ranks: int, ports: Sequence[int], jobs: Sequence[tuple[Path, Path, Path]]) -> None:
    """As `run_rank`, for `export`."""
    for port, job in zip(ports, jobs, strict=True):
        _as_torchrun_does(rank, ranks, port)
        export(*job)


def _as_torchrun_does(rank: int, ranks: int, port: int) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
