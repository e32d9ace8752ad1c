"""The corpus: cases that both engines must pass. ``tests/corpus/*.yaml`` holds one case a file.

The vocabulary is closed: a key that is not listed here is an error, because a typo that is silently ignored is a case
that tests nothing. ``python tests/experiment/corpus.py`` prints catalogue and cases as JSON for the runner in
``tests/js``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from slime.experiment import load_catalog

FOLDER = Path(__file__).parents[1] / "corpus"
TABLES = FOLDER / "tables"
LINKS = FOLDER / "links"
PROVENANCE = {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False, "sources": []}
"""What the cases assume about the checkout."""

ACTIONS = ("choices", "change", "preset", "repair")
EXPECTATIONS = (
    "refused", "ignored", "nearest", "state", "linked", "errors", "notes", "planned", "accounting", "repairs",
    "remaining", "message", "files", "lines", "absent", "sha256",
)  # fmt: skip


def load_case(path: Path) -> dict[str, Any]:
    """One case. Raises ``ValueError`` for anything outside the vocabulary."""
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    _only(path, case, ("id", "purpose", "steps"), complete=True)
    if case["id"] != path.stem:
        raise ValueError(f"{path}: id is {case['id']}, the file is named {path.stem}")
    if not case["purpose"].strip() or not case["steps"]:
        raise ValueError(f"{path}: a case needs a purpose and steps")
    for step in case["steps"]:
        _only(path, step, (*ACTIONS, "expect"))
        if len([key for key in step if key in ACTIONS]) != 1:
            raise ValueError(f"{path}: every step has exactly one of {', '.join(ACTIONS)}")
        _only(path, step.get("expect", {}), EXPECTATIONS)
        if "change" in step and len(step["change"]) != 1:
            raise ValueError(f"{path}: change edits one field")
        if "repair" in step:
            _only(path, step["repair"], ("finding", "repair"), complete=True)
    if not any(step.get("expect") for step in case["steps"]):
        raise ValueError(f"{path}: the case expects nothing")
    return case


def _only(path: Path, mapping: dict[str, Any], allowed: tuple[str, ...], *, complete: bool = False) -> None:
    unknown = [key for key in mapping if key not in allowed]
    missing = [key for key in allowed if complete and key not in mapping]
    if unknown or missing:
        raise ValueError(f"{path}: unknown keys {unknown}, missing keys {missing}")


def case_paths() -> list[Path]:
    """Every case file, in the order of its name."""
    return sorted(FOLDER.glob("*.yaml"))


def link_paths() -> list[Path]:
    """Every stored link, in the order of its name."""
    return sorted(LINKS.glob("*.yaml"))


def load_link(path: Path) -> dict[str, Any]:
    """One stored link with what it must be read as. Raises ``ValueError`` for anything outside the vocabulary."""
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    _only(path, case, ("id", "purpose", "link", "expect"), complete=True)
    if case["id"] != path.stem:
        raise ValueError(f"{path}: id is {case['id']}, the file is named {path.stem}")
    expect = case["expect"]
    if "version" not in expect:
        _only(path, expect, ("none",) if "none" in expect else ("refused",), complete=True)
        return case
    _only(path, expect, ("version", "b", "a"), complete=True)
    for side in (expect["b"], expect["a"]):
        if side is not None:
            _only(path, side, ("state", "ignored"), complete=True)
            for one in side["ignored"]:
                _only(path, one, ("key", "kind", "nearest"), complete=True)
    return case


def load_table(name: str) -> Any:
    """One table of ``tests/corpus/tables``."""
    return yaml.safe_load((TABLES / f"{name}.yaml").read_text(encoding="utf-8"))


def main() -> None:
    """Print everything for the JavaScript runner."""
    from slime.experiment.expression import parse

    expressions = load_table("expressions")
    for case in expressions["cases"]:
        case["tree"] = parse(case["expression"]).tree
    record = {
        "catalog": load_catalog().to_json(),
        "provenance": PROVENANCE,
        "cases": [load_case(path) for path in case_paths()],
        "predicates": load_table("predicates"),
        "expressions": expressions,
        "quoting": load_table("quoting"),
        "nearest": load_table("nearest"),
        "links": [load_link(path) for path in link_paths()],
    }
    json.dump(record, sys.stdout)


if __name__ == "__main__":
    main()
