"""Checkpoints of an earlier run that a new one would write over; the checks and the trainer ask alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slime.config.config import Config

_SHOWN = 4


def first_round(config: Config, resumed: int | None) -> int:
    """The round that a run begins with.

    Args:
        resumed: the round that the checkpoint in --load was saved after; None for weights alone.
    """
    if config.start_rollout_id is not None:
        return config.start_rollout_id
    return 0 if resumed is None else resumed + 1


def saves_where_it_loads(config: Config) -> bool:
    """Whether --save and --load are one folder."""
    return bool(config.save and config.load) and Path(config.save or "").resolve() == Path(config.load or "").resolve()


def endangered(config: Config, resumed: int | None, latest: int | None, steps: Sequence[int]) -> list[int]:
    """Steps in --save that the run would write over, or that would pass for its own.

    A run that goes on from the latest checkpoint of --save redoes what a killed save left there after it. So does one
    that finds no tracker: the first save was cut off.

    Args:
        resumed: as for `first_round`.
        latest: the step that the tracker of --save names; None without one.
        steps: those that --save holds, ascending.
    """
    taken = [step for step in steps if step >= first_round(config, resumed)]
    if latest is None:
        return taken if len(taken) > 1 else []
    if saves_where_it_loads(config) and resumed == latest and config.ckpt_step is None:
        return [step for step in taken if step <= latest]
    return taken


def refusal(config: Config, resumed: int | None, taken: Sequence[int]) -> tuple[str, str]:
    """What is wrong with the steps that `endangered` found, and what to do."""
    listed = ", ".join(map(str, taken[:_SHOWN])) + (", ..." if len(taken) > _SHOWN else "")
    if config.ckpt_step is not None and config.start_rollout_id is None and not config.finetune:
        return (
            f"--ckpt-step {config.ckpt_step} goes back, and --save {config.save} holds the later steps {listed}: "
            "they would be replaced, or taken for those of this run",
            "give another --save, or move the later steps away",
        )
    given = {"--finetune": config.finetune, "--start-rollout-id": config.start_rollout_id is not None}
    flags = [name for name, present in given.items() if present]
    noun, how = "step" if len(taken) == 1 else "steps", f" ({', '.join(flags)})" if flags else ""
    return (
        f"--save {config.save} holds the {noun} {listed} of an earlier run, and this one starts at round "
        f"{first_round(config, resumed)}{how}: its checkpoints would replace them",
        "give another --save, or move these steps away",
    )
