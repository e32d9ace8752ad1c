"""The table of known failures: complete, and true of the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from slime.config.preflight import RULES as PREFLIGHT
from slime.experiment import Catalog
from slime.experiment.coverage import load_coverage
from slime.experiment.errors import CatalogError

ROOT = Path(__file__).parents[2] / "recipes"


def test_every_known_failure_is_found_or_explained(catalog: Catalog) -> None:
    coverage = load_coverage(catalog.tables.rules)
    rows = {row.row: row for row in coverage.rows}
    known = {rule.row: rule for rule in PREFLIGHT if rule.row is not None}
    assert list(rows) == sorted(known)
    assert {reason.id for reason in coverage.reasons} == {row.reason for row in rows.values()} - {None}
    for number, row in rows.items():
        levels = known[number].levels
        if row.reason == "check":
            assert set(levels) & {"hf", "data", "host", "cfg"}, f"row {number}: nothing looks at it"
        if row.reason == "runtime":
            assert not levels or number == 31


def test_rules_learnt_from_public_threads_are_in_the_table(catalog: Catalog) -> None:
    """A rule of preflight arithmetic is either one of the known failures or the lab's own."""
    coverage = load_coverage(catalog.tables.rules)
    named = {rule for row in coverage.rows for rule in row.rules}
    assert {"E01", "E02", "P01", "P06", "P10", "P12", "P21"} <= named


def test_a_wrong_table_gets_its_message(catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "experiment"
    folder.mkdir()
    text = (ROOT / "experiment" / "preflight.yaml").read_text(encoding="utf-8")
    wrong = text.replace("rules: [E01]", "rules: [E99]").replace(
        "{row: 2, reason: recipe}", "{row: 1, reason: recipee}"
    )
    (folder / "preflight.yaml").write_text(wrong, encoding="utf-8")
    with pytest.raises(CatalogError) as caught:
        load_coverage(catalog.tables.rules, tmp_path)
    said = str(caught.value)
    assert "there is no rule E99" in said and "there is no reason recipee" in said and "row 1 stands twice" in said
    (folder / "preflight.yaml").write_text(text.replace("rules: [E01]", "rules: []"), encoding="utf-8")
    with pytest.raises(CatalogError, match="give either rules or a reason"):
        load_coverage(catalog.tables.rules, tmp_path)
