"""Every case of the corpus in Python; ``tests/js/corpus.test.mjs`` runs the same files in JavaScript."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from slime.experiment import Catalog, ChoiceError

from .corpus import PROVENANCE, case_paths, load_case


def _act(catalog: Catalog, state: dict[str, Any], step: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The next state and the whole answer of the engine."""
    if "choices" in step:
        read = catalog.sanitise(step["choices"])
        return read.state, read
    if "change" in step:
        ((field, value),) = step["change"].items()
        changed = catalog.change(state, field, value)
        return changed.state, changed
    if "preset" in step:
        return catalog.preset(step["preset"]), None
    preview = catalog.repair(state, step["repair"]["finding"], step["repair"]["repair"])
    return preview.state, preview


def _observe(catalog: Catalog, state: dict[str, Any], answer: Any, refused: bool, key: str, wanted: Any) -> Any:
    """What the engine says where the case expects ``wanted``, in the same shape."""
    validation = catalog.validate(state)
    first = {finding.id: finding for finding in reversed(validation.findings)}
    match key:
        case "refused":
            return refused
        case "ignored":
            return sorted(one.key for one in answer.ignored)
        case "nearest":
            return {one.key: one.nearest for one in answer.ignored if one.key in wanted}
        case "state":
            return {name: state[name] for name in wanted}
        case "linked":
            return [link.field for link in answer.linked]
        case "errors" | "notes" | "planned":
            return validation.ids({"errors": "error", "notes": "note", "planned": "planned"}[key])  # type: ignore[arg-type]
        case "accounting":
            return {name: asdict(validation.accounting)[name] for name in wanted}
        case "repairs":
            return {rule: [one.id for one in first[rule].repairs] for rule in wanted}
        case "remaining":
            return [finding.id for finding in answer.remaining]
        case "message":
            return {rule: {lang: first[rule].message.get(lang) for lang in wanted[rule]} for rule in wanted}
    return _observe_files(catalog.artifacts(state, PROVENANCE), key, wanted)


def _observe_files(files: dict[str, str], key: str, wanted: Any) -> Any:
    if key == "files":
        return list(files)
    if key == "sha256":
        return {name: hashlib.sha256(files[name].encode()).hexdigest() for name in wanted}
    lines = {name: files[name].split("\n") for name in wanted}
    if key == "lines":
        stripped = {name: [line.strip() for line in lines[name]] for name in wanted}
        return {name: [one for one in wanted[name] if one.strip() in stripped[name]] for name in wanted}
    return {name: [one for one in wanted[name] if not any(one in line for line in lines[name])] for name in wanted}


@pytest.mark.parametrize("path", case_paths(), ids=lambda path: path.stem)
def test_case(catalog: Catalog, path: Path) -> None:
    state = catalog.defaults()
    for number, step in enumerate(load_case(path)["steps"], 1):
        expect = step.get("expect", {})
        answer, refused = None, False
        try:
            state, answer = _act(catalog, state, step)
        except ChoiceError:
            refused = True
        assert refused == expect.get("refused", False), f"step {number}: refused is {refused}"
        for key, wanted in expect.items():
            observed = _observe(catalog, state, answer, refused, key, wanted)
            assert observed == wanted, f"step {number}: {key}"


def test_a_key_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "typo.yaml"
    path.write_text("id: typo\npurpose: p\nsteps:\n  - choices: {}\n    expect: {error: []}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"unknown keys \['error'\]"):
        load_case(path)
