"""What every process of a conversion does; spawned by name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from slime.weights.command import add_parser, run

Job = tuple[str, ...]


def convert(*words: object) -> int:
    """Exit status of ``slime convert`` with `words`."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["convert", *map(str, words)]))


def run_rank(rank: int, ranks: int, ports: Sequence[int], jobs: Sequence[Job]) -> None:
    """Run `jobs` as process `rank`, each at a port of its own, with the variables that torchrun sets."""
    for port, job in zip(ports, jobs, strict=True):
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        status = convert(*job)
        if status:
            raise SystemExit(f"{job}: status {status}")
