"""A against B: which choices differ and why, what that does to the generated lines, GPUs on both sides, findings.

A is the experiment that was put aside, B the one that is edited. A difference that follows from another one (choosing
asynchronous training moves to separate GPUs) names that choice: it was found by making the one edit on A.

The JavaScript twin is ``sphinx_slime_lab/js/src/core/comparison.js``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from slime.experiment.argument_table import conversion_lines, environment_lines, launcher_lines, reference_lines
from slime.experiment.artifacts import artifacts
from slime.experiment.choices import change
from slime.experiment.messages import MESSAGES
from slime.experiment.repairs import FieldChange
from slime.experiment.schema import ChoiceField
from slime.experiment.tables import Scalar, State, Tables
from slime.experiment.texts import Text, both
from slime.experiment.validation import Accounting, Finding, Severity, accounting, findings

Kind = Literal["added", "removed", "changed"]


@dataclass(frozen=True)
class Difference:
    """One choice that differs.

    ``shown_a`` and ``shown_b`` are the values in words. ``private`` ones never go into a link. ``follows`` is the other
    difference that brings this one with it, with the sentence that says so in ``because``; null for a free choice.
    """

    field: str
    step: str
    label: Text
    a: Scalar
    b: Scalar
    shown_a: Text
    shown_b: Text
    private: bool
    follows: str | None
    because: Text | None


@dataclass(frozen=True)
class StepDifferences:
    """The differences of one step, in the order of the choices."""

    step: str
    label: Text
    differences: list[Difference]


@dataclass(frozen=True)
class LineDifference:
    """One generated line that only one side has, or that reads differently.

    ``part`` is ``train`` (the launcher), ``convert``, ``environment``, or ``regular`` / ``prefill`` / ``decode`` of the
    serving reference. ``name`` is the flag or variable; ``why`` and ``fields`` are B's, or A's for a removed line.
    """

    part: str
    kind: Kind
    name: str
    a: str | None
    b: str | None
    why: Text
    fields: list[str]


@dataclass(frozen=True)
class FindingPair:
    """One finding with what it says on each side; null where it is absent."""

    id: str
    severity: Severity
    fields: list[str]
    a: Text | None
    b: Text | None


@dataclass(frozen=True)
class Totals:
    """The GPUs of both sides."""

    a: Accounting
    b: Accounting


@dataclass(frozen=True)
class FileDifference:
    """One generated file: whether each side has it, and whether the texts are equal."""

    name: str
    in_a: bool
    in_b: bool
    same: bool


@dataclass(frozen=True)
class Comparison:
    """Everything that a page shows of A against B. Steps without a difference are left out."""

    steps: list[StepDifferences]
    lines: list[LineDifference]
    files: list[FileDifference]
    findings: list[FindingPair]
    totals: Totals


def compare(tables: Tables, a: State, b: State) -> Comparison:
    """Compare two complete states."""
    differing = [choice for choice in tables.fields if a[choice.name] != b[choice.name]]
    causes = _causes(tables, a, b, [choice.name for choice in differing])
    found = [_difference(choice, a, b, causes) for choice in differing]
    steps = [
        StepDifferences(step.id, both(step.label), [one for one in found if one.step == step.id])
        for step in tables.steps
        if any(one.step == step.id for one in found)
    ]
    totals = Totals(accounting(tables.names(a)), accounting(tables.names(b)))
    return Comparison(steps, _lines(tables, a, b), _files(tables, a, b), _findings(tables, a, b), totals)


def differences(tables: Tables, before: State, after: State) -> list[FieldChange]:
    """The choices whose values differ, in order."""
    return [
        FieldChange(choice.name, before[choice.name], after[choice.name])
        for choice in tables.fields
        if before[choice.name] != after[choice.name]
    ]


def show_value(choice: ChoiceField, value: Scalar) -> Text:
    """A value in words; an empty text is said to be empty."""
    if choice.type == "enum":
        return next(both(one.label) for one in choice.values if one.value == value)
    if choice.type == "bool":
        return MESSAGES["on" if value else "off"]
    return MESSAGES["empty"] if value == "" else Text(str(value), str(value))


def _causes(tables: Tables, a: State, b: State, names: list[str]) -> dict[str, tuple[str, Text]]:
    """For each difference that another one brings along: that other one, and the sentence about it.

    Each differing choice is edited alone on A; what then already stands as in B follows from it. The first cause in the
    order of the choices counts, and of two that bring each other the first one is free.
    """
    causes: dict[str, tuple[str, Text]] = {}
    for name in names:
        for link in change(tables, a, name, b[name]).linked:
            is_taken = link.field in causes or (name in causes and causes[name][0] == link.field)
            if link.field in names and link.field != name and link.after == b[link.field] and not is_taken:
                causes[link.field] = (name, link.announce)
    return causes


def _difference(choice: ChoiceField, a: State, b: State, causes: dict[str, tuple[str, Text]]) -> Difference:
    follows, because = causes.get(choice.name, (None, None))
    left, right = a[choice.name], b[choice.name]
    shown = (show_value(choice, left), show_value(choice, right))
    return Difference(
        choice.name, choice.step, both(choice.label), left, right, *shown, not choice.share, follows, because
    )


@dataclass(frozen=True)
class _Line:
    name: str
    text: str
    why: Text
    fields: list[str]


def _lines(tables: Tables, a: State, b: State) -> list[LineDifference]:
    def flags(state: State) -> list[_Line]:
        return [_Line(one.flag, one.text, one.why, one.fields) for one in launcher_lines(tables, state)]

    def conversion(state: State) -> list[_Line]:
        return [_Line(one.flag, one.text, one.why, one.fields) for one in conversion_lines(tables, state)]

    def variables(state: State) -> list[_Line]:
        return [_Line(one.name, one.text, one.why, one.fields) for one in environment_lines(tables, state)]

    def reference(role: Literal["regular", "prefill", "decode"]) -> Callable[[State], list[_Line]]:
        def lines(state: State) -> list[_Line]:
            roles = () if state["layout"] != "external" else ("prefill", "decode") if state["pd"] else ("regular",)
            found = reference_lines(tables, state, role) if role in roles else []
            return [_Line(one.flag, one.text, one.why, one.fields) for one in found]

        return lines

    parts: list[tuple[str, Callable[[State], list[_Line]]]] = [
        ("train", flags),
        ("environment", variables),
        ("convert", conversion),
        ("regular", reference("regular")),
        ("prefill", reference("prefill")),
        ("decode", reference("decode")),
    ]
    return [line for part, lines in parts for line in _pair(part, lines(a), lines(b))]


def _numbered(lines: Iterable[_Line]) -> dict[tuple[str, int], _Line]:
    """Lines by name and the how-manieth of that name."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, int], _Line] = {}
    for line in lines:
        counts[line.name] = counts.get(line.name, 0) + 1
        found[(line.name, counts[line.name])] = line
    return found


def _pair(part: str, a: list[_Line], b: list[_Line]) -> list[LineDifference]:
    """Removed lines in A's order, then added and changed lines in B's order."""
    left, right = _numbered(a), _numbered(b)
    pairs: list[LineDifference] = [
        LineDifference(part, "removed", line.name, line.text, None, line.why, line.fields)
        for key, line in left.items()
        if key not in right
    ]
    for key, line in right.items():
        old = left.get(key)
        if old is None:
            pairs.append(LineDifference(part, "added", line.name, None, line.text, line.why, line.fields))
        elif old.text != line.text:
            pairs.append(LineDifference(part, "changed", line.name, old.text, line.text, line.why, line.fields))
    return pairs


def _files(tables: Tables, a: State, b: State) -> list[FileDifference]:
    """Every file that either side has; experiment.json is the record itself and is left out."""
    left, right = artifacts(tables, a, None), artifacts(tables, b, None)
    names = [name for name in dict.fromkeys([*left, *right]) if name != "experiment.json"]
    return [FileDifference(name, name in left, name in right, left.get(name) == right.get(name)) for name in names]


def _findings(tables: Tables, a: State, b: State) -> list[FindingPair]:
    """Findings of B in its order, then those that only A has. One finding is its id, severity and choices."""
    left, right = findings(tables, a), findings(tables, b)
    pairs = []
    for one in right:
        partner = next((other for other in left if _is_same(one, other)), None)
        said = None if partner is None else partner.message
        pairs.append(FindingPair(one.id, one.severity, one.fields, said, one.message))
    gone = [one for one in left if not any(_is_same(one, other) for other in right)]
    return [*pairs, *(FindingPair(one.id, one.severity, one.fields, one.message, None) for one in gone)]


def _is_same(one: Finding, other: Finding) -> bool:
    return (one.id, one.severity, one.fields) == (other.id, other.severity, other.fields)
