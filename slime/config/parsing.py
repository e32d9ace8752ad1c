"""From command-line words to assignments. Names are exact: no abbreviations, nothing is guessed or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slime.config.config import REGISTRY
from slime.config.errors import Problem
from slime.config.flags import Flag, value_text
from slime.config.refused import REFUSED
from slime.config.sglang_table import EARLIER_NAMES, other_names
from slime.config.underneath import SGLANG_PREFIX
from slime.config.values import ValueProblem, from_texts

COMMAND_LINE = "command line"
HELP = ("--help", "-h")
CONFIG_FILE = "--config"


@dataclass(frozen=True)
class Assignment:
    """One value given for one flag, and where."""

    flag: Flag
    value: Any
    origin: str


@dataclass(frozen=True)
class ConfigFile:
    """``--config FILE``: its assignments stand where the flag stood."""

    path: str


@dataclass(frozen=True)
class Word:
    """A flag with the words that belong to it; ``attached`` is the value of ``--flag=value``."""

    name: str
    attached: str | None
    values: tuple[str, ...]


def split_words(argv: Sequence[str]) -> Iterator[Word | str]:
    """Group the words of a command line by flag; a word before the first flag comes out as text.

    A word that starts with ``--`` is a flag, every other word is a value, so ``-1`` is a number. A value that does
    start with ``--`` is written ``--flag=--value``.
    """
    name: str | None = None
    attached: str | None = None
    values: list[str] = []
    for word in argv:
        if word.startswith("--"):
            if name is not None:
                yield Word(name, attached, tuple(values))
            name, equals, rest = word.partition("=")
            attached = rest if equals else None
            values = []
        elif name is None:
            yield word
        else:
            values.append(word)
    if name is not None:
        yield Word(name, attached, tuple(values))


def read_arguments(argv: Sequence[str]) -> tuple[list[Assignment | ConfigFile], list[Problem]]:
    """Read every word; all mistakes are collected, none stops the reading."""
    found: list[Assignment | ConfigFile] = []
    problems: list[Problem] = []
    for word in split_words(argv):
        if isinstance(word, str):
            problems.append(Problem("cfg", f"unexpected value {word!r}: it follows no flag"))
        elif word.name == CONFIG_FILE:
            given = ([word.attached] if word.attached is not None else []) + list(word.values)
            if len(given) == 1 and given[0]:
                found.append(ConfigFile(given[0]))
            else:
                problems.append(Problem("cfg", f"--config takes one file, not {len(given)}", flags=(CONFIG_FILE,)))
        else:
            _read_flag(word, found, problems)
    return found, problems


def _read_flag(word: Word, found: list[Assignment | ConfigFile], problems: list[Problem]) -> None:
    one = REGISTRY.get(word.name)
    if one is None:
        negated = _negated(word)
        if negated is not None:
            found.append(Assignment(negated, False, COMMAND_LINE))
        else:
            problems.append(unknown(word.name, COMMAND_LINE))
        return
    try:
        found.append(Assignment(one, _value(one, word), COMMAND_LINE))
    except ValueProblem as error:
        problems.append(Problem("cfg", str(error), flags=(one.name,)))


def _negated(word: Word) -> Flag | None:
    """``--no-x`` turns the switch ``--x`` off."""
    if not word.name.startswith("--no-") or word.attached is not None or word.values:
        return None
    one = REGISTRY.get("--" + word.name.removeprefix("--no-"))
    return one if one is not None and one.switch else None


def _value(one: Flag, word: Word) -> Any:
    given = ([word.attached] if word.attached is not None else []) + list(word.values)
    if one.switch:
        if word.values:
            raise ValueProblem(
                f"unexpected value {word.values[0]!r} after {one.name}: it is a switch and takes no value "
                f"({one.name}=false turns it off)"
            )
        return True if word.attached is None else from_texts(one, [word.attached])
    if one.many:
        return from_texts(one, given)
    if not given:
        raise ValueProblem(
            f"{one.name} needs a value: {one.range_text()}; a value that starts with -- is written {one.name}=VALUE"
        )
    if len(given) > 1:
        raise ValueProblem(f"{one.name} takes one value, not {len(given)}: unexpected {given[1]!r} after {given[0]!r}")
    return from_texts(one, given)


def unknown(name: str, origin: str) -> Problem:
    """The problem of a flag that is not registered: refused by name, or unknown with the nearest name."""
    where = "" if origin == COMMAND_LINE else f"{origin}: "
    if name in REFUSED:
        return Problem("cfg", f"{where}{name} is set by the runtime", REFUSED[name], (name,))
    if name == "--":
        return Problem("cfg", f"{where}a bare -- is not understood: every value belongs to a flag")
    if name == "--config" and where:
        return Problem("cfg", f"{where}a configuration file cannot name another", "give --config once for each file")
    other = _other_name(name)
    if other is not None:
        return Problem("cfg", f"{where}{name} is called {other} here", f"write {other}", (name,))
    nearest = REGISTRY.nearest(name)
    hint = f"did you mean {nearest}?" if nearest else "slime train --help lists every flag"
    return Problem("cfg", f"{where}unknown flag {name}", hint, (name,))


def _other_name(name: str) -> str | None:
    """The registered name of an argument that SGLang also takes under ``name``, or took in an earlier version."""
    argument = name.removeprefix(SGLANG_PREFIX)
    known = {**other_names(), **EARLIER_NAMES}.get(argument) if argument != name else None
    full = SGLANG_PREFIX + (known or "")
    return full if full in REGISTRY else None


def planned_problem(assignment: Assignment) -> Problem | None:
    """The problem of a flag or value that is registered but not run yet; None when it runs."""
    one, value = assignment.flag, assignment.value
    if value is None or (one.switch and value is False and not one.default):
        return None  # the default, or a switch that is off anyway: nothing is asked for
    values = value if one.many else (value,)
    for item in values:
        if not one.planned(None if one.switch and item is True else value_text(item)):
            continue
        where = "" if assignment.origin == COMMAND_LINE else f"{assignment.origin}: "
        if not one.runs:
            return Problem(
                "cfg", f"{where}{one.name} is planned: the runtime does not run it yet", "leave it out", (one.name,)
            )
        legal = ", ".join(one.only) if one.only is not None else "every other function"
        return Problem(
            "cfg",
            f"{where}{one.name} {value_text(item)} is planned: the runtime does not run this value yet",
            f"it runs {legal}",
            (one.name,),
        )
    return None
