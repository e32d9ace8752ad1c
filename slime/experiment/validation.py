"""Validation: findings about a state, and the GPUs that it takes.

A finding is one sentence that a rule says, with its severity: ``error`` blocks the scripts, ``note`` does not,
``planned`` (the built-in ``R01``) names a choice whose flag the runtime does not run yet. A finding may carry repairs;
each was applied on a copy and judged again before it is offered (``repairs.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slime.experiment.argument_table import ArgumentLine, launcher_lines
from slime.experiment.expression import Value
from slime.experiment.messages import MESSAGES
from slime.experiment.schema import ChoiceField, Rule
from slime.experiment.tables import ACCOUNTING, Scalar, State, Tables
from slime.experiment.texts import Text, both, fill

SHOWN_FLAGS = 3
Severity = Literal["error", "note", "planned"]


@dataclass(frozen=True)
class OfferedRepair:
    """A repair that was found to work; its preview comes from ``Catalog.repair``."""

    id: str
    title: Text


@dataclass(frozen=True)
class Finding:
    """One sentence about a state. ``fields`` are the choices it concerns, the first one first."""

    id: str
    severity: Severity
    fields: list[str]
    message: Text
    repairs: list[OfferedRepair] = field(default_factory=list)
    repair_note: Text | None = None
    docs: str | None = None


@dataclass(frozen=True)
class Accounting:
    """Whole GPUs (CPU recipe: processes), engines and data-parallel ranks; ``ray_gpus`` is what Ray must have."""

    train_gpus: int
    rollout_gpus: int
    ray_gpus: int
    engines: int
    prefill_gpus: int
    decode_gpus: int
    dp: int


@dataclass(frozen=True)
class Validation:
    """The findings in the order of the rules, and the accounting."""

    findings: list[Finding]
    accounting: Accounting

    def ids(self, severity: Severity) -> list[str]:
        """The ids of the findings of one severity; an id stands once per finding."""
        return [finding.id for finding in self.findings if finding.severity == severity]


def accounting(names: Mapping[str, Value]) -> Accounting:
    """The accounting part of the derived values."""
    values = {}
    for name in ACCOUNTING:
        value = names[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"the derived value {name} is {value!r}; accounting needs an integer")
        values[name] = value
    return Accounting(**values)


def findings(tables: Tables, state: State) -> list[Finding]:
    """Every finding about ``state``, without repairs."""
    return rule_findings(tables, state) + _planned(tables, state)


def rule_findings(tables: Tables, state: State) -> list[Finding]:
    """The findings of the rules alone: errors and notes."""
    names = tables.names(state)
    found: list[Finding] = []
    for rule in tables.rules:
        for name in rule.each or (None,):
            finding = _judge(tables, rule, state, names, name)
            if finding is not None:
                found.append(finding)
    return found


def _judge(tables: Tables, rule: Rule, state: State, names: Mapping[str, Value], each: str | None) -> Finding | None:
    if each is not None:
        names = {**names, "field": each, "value": state[each]}
    if not rule.when.test(names):
        return None
    slots: dict[str, Value | Text] = {**names}
    for slot, expression in rule.values.items():
        slots[slot] = expression.evaluate(names)
    if each is not None:
        slots["label"] = both(tables.by_name[each].label)
    fields = [each] if each is not None else list(rule.fields_)
    return Finding(rule.id, rule.severity, fields, fill(rule.message, slots), docs=rule.docs)


def describe_choice(choice: ChoiceField, value: Scalar) -> Text:
    """``Layout: disaggregated`` - a choice and its value in words; a user's own text is not repeated."""
    shown = Text("", "")
    if choice.type == "enum":
        shown = next(both(one.label) for one in choice.values if one.value == value)
    elif choice.type == "bool":
        shown = MESSAGES["on" if value else "off"]
    elif choice.type == "int":
        shown = Text(str(value), str(value))
    if not shown.en:
        return both(choice.label)
    return Text(f"{choice.label.zh}：{shown.zh}", f"{choice.label.en}: {shown.en}")


def _planned(tables: Tables, state: State) -> list[Finding]:
    """``R01``: one finding per choice whose flags or values the runtime's registry marks as planned."""
    by_cause: dict[str, list[ArgumentLine]] = {}
    for line in launcher_lines(tables, state):
        if line.status == "planned":
            by_cause.setdefault(line.fields[0] if line.fields else "model", []).append(line)
    found = []
    for choice in tables.fields:
        lines = by_cause.get(choice.name)
        if lines:
            flags = list(dict.fromkeys(_planned_name(tables, line) for line in lines))
            slots: dict[str, Value | Text] = {
                "choice": describe_choice(choice, state[choice.name]),
                "flags": ", ".join(flags[:SHOWN_FLAGS]),
                "more": len(flags) - SHOWN_FLAGS,
            }
            message = MESSAGES["R01" if len(flags) <= SHOWN_FLAGS else "R01_more"]
            found.append(Finding("R01", "planned", [choice.name], fill(message, slots)))
    return found


def _planned_name(tables: Tables, line: ArgumentLine) -> str:
    """The flag, with its value where only the value is not run."""
    return line.text if tables.flags[line.flag].runs and not line.literal else line.flag
