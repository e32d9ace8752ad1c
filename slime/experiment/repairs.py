"""Repairs: proposed changes that are proven on a copy before anyone sees them.

A repair is data: assignments computed from the state. It is offered only when every value is legal, the finding is gone
from the changed state and no error id is new there. Nothing is invented: a device name or an address that the real
environment must give stays among the ``remaining`` findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slime.experiment.choices import evaluate_set, normalise
from slime.experiment.errors import ChoiceError, ExpressionError
from slime.experiment.expression import Value
from slime.experiment.messages import MESSAGES
from slime.experiment.schema import Repair
from slime.experiment.tables import Scalar, State, Tables
from slime.experiment.texts import Text, fill, nearest
from slime.experiment.validation import (
    Accounting,
    Finding,
    OfferedRepair,
    Validation,
    accounting,
    findings,
    rule_findings,
)


@dataclass(frozen=True)
class FieldChange:
    """One choice that a repair changes."""

    field: str
    before: Scalar
    after: Scalar


@dataclass(frozen=True)
class RepairPreview:
    """What a repair would do: its changes, the resulting state, GPUs before and after, and the errors that remain."""

    finding: str
    repair: str
    title: Text
    changes: list[FieldChange]
    state: State
    before: Accounting
    allocation: Accounting
    remaining: list[Finding]


def validate(tables: Tables, state: State) -> Validation:
    """Findings with the repairs that work, and the accounting."""
    plain = findings(tables, state)
    names = tables.names(state)
    judged = [_with_repairs(tables, state, plain, finding, names) for finding in plain]
    return Validation(judged, accounting(names))


def _rows(tables: Tables, finding_id: str) -> tuple[Repair, ...]:
    return next((rule.repair for rule in tables.rules if rule.id == finding_id), ())


def _with_repairs(
    tables: Tables, state: State, plain: list[Finding], finding: Finding, names: Mapping[str, Value]
) -> Finding:
    rows = [row for row in _rows(tables, finding.id) if row.when.test(names)]
    if not rows:
        return finding
    works = [row for row in rows if _attempt(tables, state, plain, finding.id, row, names) is not None]
    offered = [OfferedRepair(row.id, fill(row.title, names)) for row in works]
    return replace(finding, repairs=offered, repair_note=None if works else MESSAGES["no_repair"])


def _attempt(
    tables: Tables,
    state: State,
    plain: list[Finding],
    finding_id: str,
    row: Repair,
    names: Mapping[str, Value],
) -> tuple[State, list[Finding]] | None:
    """The changed state and what the rules say of it, or None when the repair does not keep its promise."""
    try:
        values = evaluate_set(tables, row.set, names)
    except ExpressionError as error:
        if error.code != "range":
            raise
        return None
    after = normalise(tables, {**state, **values})
    remaining = rule_findings(tables, after)
    errors_before = {one.id for one in plain if one.severity == "error"}
    errors_after = {one.id for one in remaining if one.severity == "error"}
    if after == state or errors_after - errors_before or any(one.id == finding_id for one in remaining):
        return None
    return after, remaining


def preview(tables: Tables, state: State, finding_id: str, repair_id: str) -> RepairPreview:
    """What one offered repair would do; ``state`` is not modified.

    Raises ``ChoiceError`` when the finding is absent or does not offer this repair.
    """
    plain = findings(tables, state)
    names = tables.names(state)
    present = any(finding.id == finding_id for finding in plain)
    for row in _rows(tables, finding_id) if present else ():
        if row.id != repair_id or not row.when.test(names):
            continue
        result = _attempt(tables, state, plain, finding_id, row, names)
        if result is None:
            break
        after, remaining = result
        changes = [
            FieldChange(choice.name, state[choice.name], after[choice.name])
            for choice in tables.fields
            if state[choice.name] != after[choice.name]
        ]
        return RepairPreview(
            finding_id,
            repair_id,
            fill(row.title, names),
            changes,
            after,
            accounting(names),
            accounting(tables.names(after)),
            [finding for finding in remaining if finding.severity == "error"],
        )
    reason = fill(MESSAGES["no_such_repair"], {"finding": finding_id, "repair": repair_id})
    raise ChoiceError("repair", reason, nearest(repair_id, [row.id for row in _rows(tables, finding_id)]))
