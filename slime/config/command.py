"""``slime check``, which finds what is wrong with a run before it starts, and ``slime train --dry-run``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slime.config.config import Config
from slime.config.dry_run import dry_run, write_dry_run
from slime.config.dry_run_text import render_dry_run
from slime.config.errors import ConfigError, HelpRequested, Problem
from slime.config.preflight import LEVELS, preflight
from slime.config.resolve import parse_args

USAGE = """usage: slime check [--level cfg|hf|data|host ...] [--json] <the flags of slime train>

Checks a run without starting it: the flags (cfg), the checkpoint (hf), every row of the prompt files (data) and
this machine (host); all four unless --level chooses. Exit status: 0 nothing found but warnings, 1 errors found,
2 unusable flags."""

DimensionsOf = Callable[[str], Mapping[str, Any]]


def add_parser(subparsers: Any) -> None:
    """Add ``check`` to the subcommands of an argparse parser; ``args.words`` holds what follows it, unread."""
    # No word starts with NUL, so argparse reads none of the words as its own option and passes all of them on.
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "check", help="check a run without starting it", add_help=False, prefix_chars="\0"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, dimensions_of: DimensionsOf | None = None) -> int:
    """Run ``slime check``; ``dimensions_of`` gives the model file's dimensions of a recipe id."""
    return check(args.words, dimensions_of)


def check(words: Sequence[str], dimensions_of: DimensionsOf | None = None) -> int:
    """Check the flags in ``words``, print what is wrong, return the exit status."""
    if any(word in ("--help", "-h") for word in words):
        print(USAGE)
        return 0
    try:
        levels, as_json, flags = _split(words)
        config = parse_args(flags)
    except HelpRequested as request:
        print(request)
        return 0
    except ConfigError as error:
        if "--json" in words:
            _print_json(error.problems)
        else:
            print(f"slime check: {error}", file=sys.stderr)
        return error.exit_code
    dimensions = dimensions_of(config.recipe) if dimensions_of is not None and config.recipe else None
    problems = preflight(config, dimensions, levels)
    if as_json:
        _print_json(problems)
    else:
        for problem in problems:
            print(f"{problem.severity}: {problem}", file=sys.stderr)
        errors = sum(problem.severity == "error" for problem in problems)
        print(f"slime check: {', '.join(levels)}: {errors} errors, {len(problems) - errors} warnings")
    return 1 if any(problem.severity == "error" for problem in problems) else 0


def show_dry_run(config: Config, planned: Sequence[Problem] = ()) -> int:
    """Print the dry run, write ``--dry-run-json``, return the exit status: 2 when something is not run yet, else 0.

    Raises:
        ConfigError: the groups of engines do not add up, or the file cannot be written.
    """
    document = dry_run(config, planned)
    print(render_dry_run(document))
    if config.dry_run_json is not None:
        write_dry_run(document, config.dry_run_json)
    if planned:
        print(f"slime train: {len(planned)} of these settings are not run yet; they stand last above", file=sys.stderr)
    return 2 if planned else 0


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], bool, list[str]]:
    """Take ``--level`` and ``--json`` out of the words."""
    levels: list[str] = []
    rest: list[str] = []
    as_json = False
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--json":
            as_json = True
        elif word == "--level":
            while position < len(words) and not words[position].startswith("--"):
                levels.append(words[position])
                position += 1
            if not levels:
                raise ConfigError(f"--level needs a value: one of {', '.join(LEVELS)}")
        elif word.startswith("--level="):
            levels.append(word.removeprefix("--level="))
        else:
            rest.append(word)
    for level in levels:
        if level not in LEVELS:
            raise ConfigError(f"--level {level}: not one of {', '.join(LEVELS)}")
    return tuple(one for one in LEVELS if one in levels) or LEVELS, as_json, rest


def _print_json(problems: Sequence[Problem]) -> None:
    print(
        json.dumps({"schema": 1, "problems": [asdict(problem) for problem in problems]}, ensure_ascii=False, indent=2)
    )
