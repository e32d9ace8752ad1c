"""Which known failures of real runs the lab finds, and why it cannot find the others.

``recipes/experiment/preflight.yaml`` numbers them as ``slime check`` does; the rules page shows the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from slime.experiment.errors import CatalogError
from slime.experiment.facts import default_root
from slime.experiment.facts_schema import FactModel, Positive, Words
from slime.experiment.loading import read_file
from slime.experiment.schema import Name, Rule

RuleId = Annotated[str, Field(pattern=r"^[A-Z][0-9]{2}$")]


class Reason(FactModel):
    """Why no rule of the lab finds a failure."""

    id: Name
    says: Words


class CoverageRow(FactModel):
    """One known failure: the lab's rules, or the reason why there is none."""

    row: Positive
    rules: tuple[RuleId, ...] = Field(default=(), strict=False)
    reason: Name | None = None

    @model_validator(mode="after")
    def _rules_or_reason(self) -> CoverageRow:
        if bool(self.rules) == (self.reason is not None):
            raise ValueError("give either rules or a reason")
        return self


class CoverageFile(FactModel):
    """``preflight.yaml``."""

    reasons: tuple[Reason, ...] = Field(strict=False)
    rows: tuple[CoverageRow, ...] = Field(strict=False)


def load_coverage(rules: tuple[Rule, ...], root: Path | None = None) -> CoverageFile:
    """Read the table of ``root`` (the folder ``recipes``; default: found next to the package or inside it).

    Raises ``CatalogError`` for a rule or a reason that does not exist, and for a row that stands twice.
    """
    base = default_root() if root is None else Path(root)
    coverage, place = read_file(base / "experiment" / "preflight.yaml", CoverageFile)
    known, reasons = {rule.id for rule in rules}, {reason.id for reason in coverage.reasons}
    problems = []
    seen: set[int] = set()
    for index, row in enumerate(coverage.rows):
        unknown = [rule for rule in row.rules if rule not in known]
        problems += [place.at(("rows", index), f"there is no rule {rule}") for rule in unknown]
        if row.reason is not None and row.reason not in reasons:
            problems.append(place.at(("rows", index), f"there is no reason {row.reason}"))
        if row.row in seen:
            problems.append(place.at(("rows", index), f"row {row.row} stands twice"))
        seen.add(row.row)
    if problems:
        raise CatalogError("\n".join(problems))
    return coverage
