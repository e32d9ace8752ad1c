"""Kills a run that does nothing but save, at random moments, and reads what is left: run as a program of its own.

One process imports everything once and forks the runs, so that a kill costs no imports. Each run first loads what the
killed one before it left, and checks every number of it. Weights and moments of the checkpoint of step k are all k.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from slime.config import Config
from slime.megatron.trainer import MegatronTrainer
from slime.ports import free_port
from slime.weights.tracker import read_tracker

from .megatron_cases import make_batch, make_config, make_sequences


def save_forever(config: Config, rank: int, ranks: int, port: int, reports: int) -> None:
    """Load, check, and save step after step; tells through `reports` which it loaded, begins and ends."""
    torch.set_num_threads(1)
    trainer = MegatronTrainer(config, rank, ranks, "127.0.0.1", port)
    loaded = trainer.load()
    if loaded.step is None:
        sequences = make_sequences(8, 0)
        trainer.train(make_batch(sequences, 1, 4, rank, ranks))  # the optimizer gets moments
    else:
        check(trainer, loaded.step, loaded.data_cursor)
    step = -1 if loaded.step is None else loaded.step
    _tell(reports, rank, f"saved {step}")
    while True:
        step += 1
        with torch.no_grad():
            for tensor in numbers(trainer):
                tensor.fill_(step)
        _tell(reports, rank, f"saves {step}")
        trainer.save(step, {"step": step})
        _tell(reports, rank, f"saved {step}")


def numbers(trainer: MegatronTrainer) -> list[torch.Tensor]:
    """Weights and moments of this rank."""
    states = [part.optimizer.state for part in trainer._state.optimizer.chained_optimizers]
    moments = [values[name] for state in states for values in state.values() for name in ("exp_avg", "exp_avg_sq")]
    return [*(one.data for one in trainer._model.parameters()), *moments]


def check(trainer: MegatronTrainer, step: int, cursor: dict[str, Any]) -> None:
    """Every number that was loaded belongs to `step`."""
    wrong = sum(int((tensor != step).sum()) for tensor in numbers(trainer))
    if wrong or cursor != {"step": step}:
        raise SystemExit(f"the checkpoint of step {step} holds {wrong} numbers of another, and the cursor {cursor}")


def _tell(reports: int, rank: int, what: str) -> None:
    if rank == 0:
        os.write(reports, f"{what}\n".encode())


def _fork(config: Config, ranks: int) -> tuple[list[int], int]:
    """Start the ranks of one run; their ids, and the end of the pipe that rank 0 reports through."""
    inlet, outlet = os.pipe()
    port, pids = free_port(), []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os.close(inlet)
            try:
                save_forever(config, rank, ranks, port, outlet)
            except BaseException as error:
                print(f"rank {rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(3)
        pids.append(pid)
    os.close(outlet)
    return pids, inlet


class _Run:
    """The forked ranks of one run, seen through what rank 0 reports."""

    def __init__(self, config: Config, ranks: int) -> None:
        self.pids, self._inlet = _fork(config, ranks)
        self.begun: list[float] = []
        self.reported: list[int] = []

    def read(self, seconds: float, first: bool = False) -> None:
        """Take reports for `seconds`, or until the run ends, or the first comes."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and select.select([self._inlet], [], [], left)[0]:
            text = os.read(self._inlet, 1 << 16).decode()
            for word, step in (line.split() for line in text.splitlines()):
                if word == "saves":
                    self.begun.append(time.monotonic())
                else:
                    self.reported.append(int(step))
            if not text or first:
                return

    def read_until(self, saves: int) -> None:
        """Take reports until the run has loaded, and begun so many saves.

        Raises:
            SystemExit: the run ended before, or needed 600 s.
        """
        deadline = time.monotonic() + 600
        while not self.reported or len(self.begun) < saves:
            ended = any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) for pid in self.pids)
            if ended or time.monotonic() > deadline:
                raise SystemExit(f"the run could not {'save' if self.reported else 'load what the one before it left'}")
            self.read(0.05, first=True)

    def kill(self, order: Sequence[int]) -> None:
        """Kill the ranks, and take the reports that they had made."""
        for pid in order:
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids:
            os.waitpid(pid, 0)
        self.read(1)
        os.close(self._inlet)


def interrupt(config: Config, ranks: int, chance: random.Random) -> dict[str, Any]:
    """One run, killed at a random moment of its third save.

    Returns:
        what the tracker said before and after, the steps that the run reported (first the one that it loaded), whether
        it was inside `save`, and what it left half done.
    """
    root = Path(str(config.save))
    before = read_tracker(root)
    run = _Run(config, ranks)
    run.read_until(saves=3)
    run.read(chance.uniform(0, run.begun[2] - run.begun[1]))
    run.kill(chance.sample(run.pids, ranks))  # the ranks of a run do not die at one moment
    left = sorted(path.name for path in root.glob(".*"))
    inside = len(run.begun) >= len(run.reported)
    return {"before": before, "reported": run.reported, "after": read_tracker(root), "inside": inside, "left": left}


def main(arguments: Sequence[str]) -> None:
    """Kill as often as asked, and load what the last kill left; prints one line of JSON for each kill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("hf", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--async-save", action="store_true")
    args = parser.parse_args(arguments)
    root = str(args.root)
    config = make_config(
        args.hf,
        save=root,
        load=root,
        num_rollout=1_000_000,
        actor_num_gpus_per_node=args.ranks,
        use_distributed_optimizer=True,
        async_save=args.async_save,
        keep_last=2,
    )
    chance = random.Random(0)
    for _ in range(args.kills):
        print(json.dumps(interrupt(config, args.ranks, chance)), flush=True)
    last = _Run(config, args.ranks)
    last.read_until(saves=0)
    last.kill(last.pids)


if __name__ == "__main__":
    main(sys.argv[1:])
