"""The argument table rendered for one state: a line per flag, each with its reason and its status.

The rows come from ``arguments.yaml``; the flags that only one recipe needs are spliced in from its launch file. Whether
the runtime runs a flag, or a value of it, is what its registry says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from slime.experiment.errors import ExpressionError
from slime.experiment.expression import Value
from slime.experiment.quoting import quote, word
from slime.experiment.schema import ArgumentRow, EnvironmentRow
from slime.experiment.tables import FlagStatus, State, Tables
from slime.experiment.texts import Text, both

Status = Literal["runs", "planned", "other"]
Role = Literal["train", "regular", "prefill", "decode"]
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class ArgumentLine:
    """One flag of a script.

    ``values`` are finished shell words and ``text`` is the whole line. ``fields`` are the choices that cause it.
    ``status`` is ``runs`` or ``planned`` for the launcher's flags and ``other`` for another tool's. ``literal`` says
    that a text which a user typed stands in it.
    """

    flag: str
    values: list[str]
    text: str
    why: Text
    group: str
    target: str
    fields: list[str]
    status: Status
    literal: bool


@dataclass(frozen=True)
class EnvironmentLine:
    """One variable of the training job: ``text`` is one shell word, ``'NAME=value'`` or ``NAME="$VARIABLE"``."""

    name: str
    text: str
    why: Text
    fields: list[str]


@dataclass(frozen=True)
class _Word:
    """A shell word and, where it is known, the plain value behind it."""

    shell: str
    plain: str | None


def is_planned(status: FlagStatus, value: str | None) -> bool:
    """True when the runtime does not run the flag, or not with ``value`` (None: a switch, or a shell variable)."""
    if not status.runs:
        return True
    if status.only is None:
        return False
    if value is None:
        return status.switch and "true" not in status.only
    return not any(_same_value(status, value, one) for one in status.only)


def _same_value(status: FlagStatus, left: str, right: str) -> bool:
    if left == right:
        return True
    if not status.numeric or _DECIMAL.fullmatch(left) is None or _DECIMAL.fullmatch(right) is None:
        return False
    return float(left) == float(right)


def launcher_lines(tables: Tables, state: State) -> list[ArgumentLine]:
    """The flags of ``slime train``: training and serving rows, in the order of the table."""
    return list(_lines(tables, state, ("train", "serving"), "train"))


def conversion_lines(tables: Tables, state: State) -> list[ArgumentLine]:
    """The flags of the checkpoint conversion."""
    return list(_lines(tables, state, ("convert",), "train"))


def reference_lines(tables: Tables, state: State, role: Role) -> list[ArgumentLine]:
    """The flags of an SGLang server that someone else starts, under SGLang's own names."""
    return list(_lines(tables, state, ("serving", "reference"), role))


def environment_lines(tables: Tables, state: State) -> list[EnvironmentLine]:
    """The training job's environment; a variable of the launch file replaces a row of the same name."""
    names = tables.names(state, role="train")
    own = tables.facts.launch[str(state["model"])].environment
    lines: list[EnvironmentLine] = []
    for row in tables.arguments.environment:
        if not row.when.test(names):
            continue
        if row.splice is not None:
            for name in sorted(own):
                text = quote(f"{name}={own[name].value}")
                lines.append(EnvironmentLine(name, text, both(own[name].why), list(row.fields_)))
        elif row.name is not None and row.why is not None and row.name not in own:
            lines.append(EnvironmentLine(row.name, _assignment(row, names), both(row.why), list(row.fields_)))
    return lines


def _assignment(row: EnvironmentRow, names: Mapping[str, Value]) -> str:
    if row.value is None:
        return f"{row.name}={row.shell}"
    return quote(f"{row.name}={_scalar(row.value.evaluate(names), str(row.name))}")


def _scalar(value: Value, owner: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ExpressionError("type", f"{owner} needs a text or an integer, got {value!r}")
    return str(value)


def _lines(tables: Tables, state: State, targets: tuple[str, ...], role: Role) -> Iterator[ArgumentLine]:
    names = tables.names(state, role=role)
    for row in tables.arguments.arguments:
        if row.target in targets and row.when.test(names):
            yield from _spliced(tables, state, row, role) if row.splice else _row(tables, row, names, role)


def _row(tables: Tables, row: ArgumentRow, names: Mapping[str, Value], role: Role) -> Iterator[ArgumentLine]:
    if row.flag is None or row.why is None:  # the schema demands both of every row but a splice
        return
    literal = tables.carries_user_text(row.value) or tables.carries_user_text(row.each)
    words: list[_Word] = []
    if row.value is not None:
        words = [_word(row.value.evaluate(names), row.flag, literal)]
    elif row.each is not None:
        values = row.each.evaluate(names)
        if not isinstance(values, list):
            raise ExpressionError("type", f"{row.flag}: each needs a list, got {values!r}")
        words = [_word(value, row.flag, literal) for value in values]
    words += [_Word(shell, None) for shell in row.shell_words]
    yield from _line(tables, row, row.flag, words, both(row.why), literal, role)


def _word(value: Value, flag: str, literal: bool) -> _Word:
    plain = _scalar(value, flag)
    return _Word(plain if isinstance(value, int) else word(plain, literal=literal), plain)


def _spliced(tables: Tables, state: State, row: ArgumentRow, role: Role) -> Iterator[ArgumentLine]:
    recipe = tables.facts.launch[str(state["model"])]
    extra = recipe.training_flags if row.splice == "training_flags" else recipe.serving_flags
    for one in extra:
        words = [] if one.value is None else [_Word(word(one.value, literal=False), one.value)]
        yield from _line(tables, row, one.flag, words, both(one.why), False, role)


def _line(
    tables: Tables, row: ArgumentRow, flag: str, words: list[_Word], why: Text, literal: bool, role: Role
) -> Iterator[ArgumentLine]:
    status: Status = "other"
    if role != "train":
        if flag.startswith("--rollout-"):
            return
        flag = flag.replace("--sglang-", "--", 1) if row.target == "serving" else flag
    elif row.target != "convert":
        plain = [one.plain for one in words] or [None]
        status = "planned" if any(is_planned(tables.flags[flag], value) for value in plain) else "runs"
    shell = [one.shell for one in words]
    yield ArgumentLine(
        flag, shell, " ".join([flag, *shell]), why, row.group, row.target, list(row.fields_), status, literal
    )
