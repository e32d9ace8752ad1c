"""The whole way of a configuration: merge all sources, derive, validate."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from slime.config.config import REGISTRY, Config
from slime.config.derive import derive
from slime.config.errors import ConfigError, HelpRequested, Problem
from slime.config.helptext import help_text, help_topic
from slime.config.layers import read_file
from slime.config.parsing import (
    HELP,
    Assignment,
    ConfigFile,
    planned_problem,
    read_arguments,
    unknown,
)
from slime.config.validate import validate
from slime.config.values import ValueProblem, from_data

# Rules that say what the runtime does not run yet, where no single flag is planned.
NOT_YET_RULES = frozenset({"gpu-run", "serving-groups"})


class Refused(ConfigError):
    """Every flag could be read, and something stands against the run; ``config`` is the run as it was derived."""

    def __init__(self, config: Config, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.config = config


class NotYetRun(Refused):
    """Everything fits together, but the runtime does not run some of it yet."""


def parse_args(argv: Sequence[str]) -> Config:
    """Turn the words after ``slime train`` into a resolved configuration.

    Files and flags are merged in the order in which they stand, later ones win; then derived values are filled;
    then everything is checked. Raises ConfigError with every problem found, HelpRequested for ``--help``, Refused when
    every flag could be read, and NotYetRun when all that stands against the run is that the runtime does not run a flag
    or a value yet.
    """
    if any(word.partition("=")[0] in HELP for word in argv):
        raise HelpRequested(help_text(language(), help_topic(argv, HELP)))
    found, problems = read_arguments(argv)
    merged: list[Assignment] = []
    for item in found:
        if isinstance(item, ConfigFile):
            from_file, file_problems = read_file(item.path)
            merged.extend(from_file)
            problems.extend(file_problems)
        else:
            merged.append(item)
    return _resolve(merged, problems)


def make_config(**values: Any) -> Config:
    """Build a configuration from Config fields, with the same derivation and checks as :func:`parse_args`.

    Raises ConfigError.
    """
    merged: list[Assignment] = []
    problems: list[Problem] = []
    for field, value in values.items():
        name = "--" + field.replace("_", "-")
        one = REGISTRY.get(name)
        if one is None:
            problems.append(unknown(name, "call"))
            continue
        try:
            data = list(value) if isinstance(value, tuple) else value
            merged.append(Assignment(one, from_data(one, data), "call"))
        except ValueProblem as error:
            problems.append(Problem("cfg", str(error), flags=(name,)))
    return _resolve(merged, problems)


def _resolve(merged: Sequence[Assignment], problems: list[Problem]) -> Config:
    last = {item.flag.field: item for item in merged}
    given = {field: item.value for field, item in last.items()}
    config = Config(**given, origins={field: item.origin for field, item in last.items()})
    planned = [problem for item in last.values() if (problem := planned_problem(item)) is not None]
    refused = {name for problem in problems for name in problem.flags}
    missing = [one for one in missing_flags(config) if not refused.intersection(one.flags)]
    # A value that was refused or is missing would be refused again, under another name, by the rules that read its
    # default or what is derived from it.
    if missing or problems:
        raise ConfigError([*problems, *missing, *planned])
    config = derive(config)
    errors = [one for one in validate(config) if one.severity == "error"]
    planned = [*planned, *(one for one in errors if one.rule in NOT_YET_RULES)]
    problems = [one for one in errors if one.rule not in NOT_YET_RULES]
    if problems:
        raise Refused(config, [*problems, *planned])
    if planned:
        raise NotYetRun(config, planned)
    return config


def missing_flags(config: Config) -> list[Problem]:
    """The required flags that nothing gave."""
    return [
        Problem("cfg", f"{one.name} is required", one.help.en, (one.name,))
        for one in REGISTRY.values()
        if one.required and getattr(config, one.field) in (None, "")
    ]


def language(environ: Mapping[str, str] | None = None) -> str:
    """``zh`` or ``en`` for help texts: SLIME_LANG, else the first locale variable that is set."""
    environ = os.environ if environ is None else environ
    for name in ("SLIME_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def as_values(config: Config) -> dict[str, Any]:
    """Every flag's value by its name, in registry order, JSON-ready."""
    values = {one.name: getattr(config, one.field) for one in REGISTRY.values()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def as_arguments(config: Config) -> list[str]:
    """The shortest command line that gives this configuration again, without derived values and defaults."""
    words: list[str] = []
    for field in dataclasses.fields(config):
        if field.name == "origins" or config.origins.get(field.name, "derived") == "derived":
            continue
        one = REGISTRY.by_field(field.name)
        words.extend(_words(one.name, one.switch, getattr(config, field.name)))
    return words


def _words(name: str, switch: bool, value: Any) -> list[str]:
    import json

    if value is None:
        return []
    if switch:
        return [name if value else f"{name}=false"]
    if isinstance(value, tuple):
        return [name, *(str(item) for item in value)]
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return [f"{name}={text}"] if text.startswith("--") else [name, text]
