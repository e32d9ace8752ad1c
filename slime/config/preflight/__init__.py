"""Checks before anything is started: flags, checkpoint, data, machine. Reads and probes, writes nothing.

A check is a function of a :class:`~slime.config.rule.Rule`; `registry.RULES` holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slime.config.config import Config
from slime.config.errors import Level, Problem
from slime.config.preflight.inputs import Dimensions, Inputs
from slime.config.preflight.registry import RULES
from slime.config.rule import LEVELS, Rule

__all__ = ["LEVELS", "RULES", "examine", "preflight"]


def preflight(config: Config, model_dims: Dimensions | None = None, levels: Sequence[str] = LEVELS) -> list[Problem]:
    """Every problem that can be found without starting the run, errors and warnings.

    ``model_dims`` are the dimensions of the recipe's model file under its own keys (``layers``, ``hidden``, ...);
    without them the checkpoint's dimensions are read but not compared. ``cfg`` needs only the flags, ``hf`` reads the
    checkpoint folder, ``data`` every row of the prompt files (and tries grader and hooks), ``host`` probes this machine
    and the Ray cluster.
    """
    return examine(Inputs(config, model_dims), levels)


def examine(inputs: Inputs, levels: Sequence[str] = LEVELS) -> list[Problem]:
    """`preflight` of inputs that somebody else goes on to use."""
    found = [
        problem
        for level in LEVELS
        if level in levels
        for rule in RULES
        if level in rule.levels
        for problem in _run(rule, level, inputs)
    ]
    return list(dict.fromkeys(found))


def _run(rule: Rule, level: Level, inputs: Inputs) -> Iterator[Problem]:
    check = getattr(rule, level)
    try:
        yield from rule.problems(level, check(inputs.config if level == "cfg" else inputs))
    except OSError as error:
        # A name that is too long, a folder that may not be entered, a disk that fails: any probe can meet it.
        message = f"{error.filename or 'a file'} cannot be looked at: {error.strerror or error}"
        yield Problem(level, message, "correct the path, or who may read it", rule=rule.id)
