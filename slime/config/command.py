"""``slime check``, which finds what is wrong with a run before it starts, and ``slime train --dry-run``."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slime.config.config import Config
from slime.config.dry_run import dry_run, write_dry_run
from slime.config.dry_run_text import render_dry_run
from slime.config.errors import ConfigError, HelpRequested, Level, Problem
from slime.config.parsing import split_words
from slime.config.preflight import LEVELS, examine
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.notes import notes
from slime.config.resolve import NOT_YET_RULES, Refused, parse_args
from slime.config.validate import validate

USAGE = """usage: slime check [--level cfg|hf|data|host ...] [--json] <the flags of slime train>

Checks a run without starting it: the flags (cfg), the checkpoint (hf), every row of the prompt files with grader and
hooks (data) and this machine with its Ray cluster (host); all four unless --level chooses. Each finding names its
rule. Exit status: 0 nothing found but warnings, 1 errors found, 2 flags that cannot be read or are not run yet."""

DimensionsOf = Callable[[str], Mapping[str, Any]]


def check(words: Sequence[str], dimensions_of: DimensionsOf | None = None) -> int:
    """Check the flags in ``words``, print what is wrong, return the exit status."""
    if any(word in ("--help", "-h") for word in words):
        print(USAGE)
        return 0
    try:
        levels, as_json, flags = _split(words)
        inputs, planned = read_inputs(flags, dimensions_of)
    except HelpRequested as request:
        print(request)
        return 0
    except ConfigError as error:
        if "--json" in words:
            _print_json(error.problems)
        else:
            print(f"slime check: {error}", file=sys.stderr)
        return error.exit_code
    problems = [*(planned if "cfg" in levels else ()), *examine(inputs, levels)]
    errors = [problem for problem in problems if problem.severity == "error"]
    if as_json:
        _print_json(problems)
    else:
        for note in notes(inputs, levels):
            print(f"note: {note}")
        for problem in problems:
            print(f"{problem.severity}: {problem}", file=sys.stderr)
        print(f"slime check: {', '.join(levels)}: {len(errors)} errors, {len(problems) - len(errors)} warnings")
    if "cfg" in levels and planned:
        return 2
    return 1 if errors else 0


def read_inputs(words: Sequence[str], dimensions_of: DimensionsOf | None = None) -> tuple[Inputs, list[Problem]]:
    """What preflight looks at, from the flags in ``words``, and what of them the runtime does not run yet.

    Args:
        words: flags of ``slime train``.
        dimensions_of: gives the model file's dimensions of a recipe id; raises ConfigError for an unknown one.

    Raises:
        ConfigError: a flag cannot be read. What rules say against the flags is left to preflight.
        HelpRequested: for ``--help``.
    """
    planned: list[Problem] = []
    try:
        config = parse_args(words)
    except Refused as error:
        config = error.config
        planned = [problem for problem in error.problems if not problem.rule]
    dimensions = dimensions_of(config.recipe) if dimensions_of is not None and config.recipe else None
    return Inputs(config, dimensions), planned


RecipeWords = Callable[[str], Mapping[str, Sequence[str]]]


def show_dry_run(config: Config, planned: Sequence[Problem] = (), words_of: RecipeWords | None = None) -> int:
    """Print the dry run, write ``--dry-run-json``, return the exit status: 2 when something is not run yet, else 0.

    Args:
        config: the run.
        planned: what it asks for that is not run yet.
        words_of: gives the flags of a recipe with their words.

    Raises:
        ConfigError: a rule of the flags is broken, the groups of engines do not add up, or the file cannot be written.
    """
    errors = [problem for problem in validate(config) if problem.severity == "error"]
    wrong = [problem for problem in errors if problem.rule not in NOT_YET_RULES]
    if wrong:
        raise ConfigError([*wrong, *planned])
    planned = [*planned, *errors]
    document = dry_run(config, planned, words_of(config.recipe) if words_of and config.recipe else None)
    print(render_dry_run(document))
    if config.dry_run_json is not None:
        write_dry_run(document, config.dry_run_json)
    if planned:
        print(f"slime train: {len(planned)} of these settings are not run yet; they stand last above", file=sys.stderr)
    return 2 if planned else 0


def _split(words: Sequence[str]) -> tuple[tuple[Level, ...], bool, list[str]]:
    """Take ``--level`` and ``--json`` out of the words. Raises ConfigError for a level that there is not."""
    levels: list[str] = []
    rest: list[str] = []
    as_json = False
    for item in split_words(words):
        if isinstance(item, str):
            rest.append(item)
            continue
        values = ([item.attached] if item.attached else []) + list(item.values)
        if item.name == "--level":
            if not values:
                raise ConfigError(f"--level needs a value: one or more of {', '.join(LEVELS)}")
            levels += values
        elif item.name == "--json" and not values:
            as_json = True
        else:
            rest += [item.name if item.attached is None else f"{item.name}={item.attached}", *item.values]
    for level in levels:
        if level not in LEVELS:
            close = difflib.get_close_matches(level, LEVELS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"--level {level}: not one of {', '.join(LEVELS)}{hint}")
    return tuple(one for one in LEVELS if one in levels) or LEVELS, as_json, rest


def _print_json(problems: Sequence[Problem]) -> None:
    print(
        json.dumps({"schema": 1, "problems": [asdict(problem) for problem in problems]}, ensure_ascii=False, indent=2)
    )
