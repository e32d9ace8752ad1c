"""Which weights a run starts with, and whether its checkpoints would replace those of an earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slime.config import Config
from slime.config.earlier_steps import endangered, refusal
from slime.weights.tracker import CheckpointError, checkpoint_folder, present_steps, read_tracker


@dataclass(frozen=True)
class Start:
    """Where the policy's weights are.

    Attributes:
        source: folder of a Hugging Face or Megatron checkpoint.
        step: which of its checkpoints; None = the latest.
        resumed: it is a run that goes on; otherwise weights alone are taken.
    """

    source: Path
    step: int | None
    resumed: bool


def find_start(config: Config) -> Start:
    """From the flags and what --load holds; nothing is loaded yet.

    A --load without a checkpoint is normal on the first start of a run, which then starts with --ref-load.

    Raises:
        CheckpointError: there is nothing to start with; --finetune finds nothing in --load; or --load is a Hugging Face
            folder without --finetune.
    """
    load = None if config.load is None else Path(config.load)
    if load is not None and (config.ckpt_step is not None or read_tracker(load) is not None):
        return Start(load, config.ckpt_step, not config.finetune)
    hugging_face = load is not None and (load / "config.json").is_file()
    if load is not None and config.finetune:
        if not hugging_face:
            raise CheckpointError(
                f"--load {load} holds no checkpoint, and --finetune takes the weights that are there."
            )
        return Start(load, None, False)
    if hugging_face:
        raise CheckpointError(
            f"--load {load} is a Hugging Face folder, which holds no run to continue: give --finetune to start at "
            "round 0 with its weights, or name it with --ref-load."
        )
    if config.ref_load is None:
        raise CheckpointError(f"--load {load} holds no checkpoint, and there is no --ref-load to start from.")
    return Start(Path(config.ref_load), config.ref_ckpt_step, False)


def refuse_replacing(config: Config, start: Start) -> None:
    """Checkpoints of an earlier run in --save stay.

    Raises:
        CheckpointError: the run would write over some of them, or could take them for its own.
    """
    if config.save is None:
        return
    resumed = None
    if start.resumed:
        number = start.step if start.step is not None else read_tracker(start.source)
        checkpoint_folder(start.source, start.step)
        resumed = number if isinstance(number, int) else None
    root = Path(config.save)
    latest = read_tracker(root)
    taken = endangered(config, resumed, latest if isinstance(latest, int) else None, present_steps(root))
    if taken:
        raise CheckpointError("; ".join(refusal(config, resumed, taken)) + ".")
