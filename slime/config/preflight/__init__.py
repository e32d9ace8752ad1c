"""Checks before anything is started: the flags, the checkpoint, the data, the machine. Reads files, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slime.config.config import Config
from slime.config.errors import Level, Problem
from slime.config.preflight.checkpoint import check_megatron_checkpoints, check_tokenizer, check_weights
from slime.config.preflight.dimensions import check_dimensions
from slime.config.preflight.host import check_disk, check_output_paths, check_ports, check_save, check_shared_memory
from slime.config.preflight.prompts import check_prompt_files
from slime.config.validate import validate

LEVELS: tuple[Level, ...] = ("cfg", "hf", "data", "host")

Dimensions = Mapping[str, Any]


def preflight(config: Config, model_dims: Dimensions | None = None, levels: Sequence[str] = LEVELS) -> list[Problem]:
    """Every problem that can be found without starting a process, errors and warnings.

    ``model_dims`` are the dimensions of the recipe's model file under its own keys (``layers``, ``hidden``, ...);
    without them the checkpoint's dimensions are read but not compared. ``cfg`` needs only the flags, ``hf`` reads the
    checkpoint folders, ``data`` every row of the prompt files, ``host`` probes this machine.
    """
    by_level: dict[Level, tuple[Callable[[], Iterable[Problem]], ...]] = {
        "cfg": (lambda: validate(config),),
        "hf": (
            lambda: check_dimensions(config, model_dims),
            lambda: check_tokenizer(config),
            lambda: check_weights(config),
            lambda: check_megatron_checkpoints(config),
        ),
        "data": (lambda: check_prompt_files(config),),
        "host": (
            lambda: check_ports(config),
            lambda: check_save(config),
            lambda: check_output_paths(config),
            lambda: check_shared_memory(config),
            lambda: check_disk(config),
        ),
    }
    found: list[Problem] = []
    for level in LEVELS:
        for check in by_level[level] if level in levels else ():
            try:
                found.extend(check())
            except OSError as error:
                # A name that is too long, a folder that may not be entered, a disk that fails: any probe can meet it.
                found.append(Problem(level, f"{error.filename or 'a file'} cannot be looked at: {error.strerror}"))
    return list(dict.fromkeys(found))
