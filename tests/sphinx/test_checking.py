"""The build accepts and refuses the same sources as ``slime lab check``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slime.experiment import load_catalog
from slime.experiment.command import main
from slime.experiment.facts import default_root
from sphinx_slime_lab.checking import check
from sphinx_slime_lab.workbench import Workbench

OLD = {"schema": 1, "choices": {"model": "tiny", "step": 3}, "validation": {}}
TABS = '{\n\t"schema": 2,\n\t"choices": {\n\t\t"model": "flash",\n\t\t"layout": "separate",\n\t\t"rollout": 12\n\t}\n}'
FEWER = TABS.replace('"rollout": 12', '"rollot": 12')


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return Workbench(load_catalog(), "en", default_root(), default_root().parent)


@pytest.mark.parametrize(
    ("text", "status", "line", "notes"),
    [
        ("model: tiny\n", 0, None, 0),
        ("model: flash\nlayout: separate\nrollout: 12\n", 1, 2, 0),
        ("model: flash\nlayot: separate\n", 2, 1, 0),
        (TABS, 1, 5, 0),
        (FEWER, 2, 5, 0),
        (json.dumps(OLD, indent=2), 0, None, 1),
        ("model: tiny\nstep: 3\n", 0, None, 1),
        ('hf: "/data/a\\tb"\n', 0, None, 1),
        ("hf: " + "x" * 300_000, 2, None, 0),
        ("".join(f"key{number}: 1\n" for number in range(300)), 2, None, 0),
        ('{"nodes": 1, "nodes": 2}', 2, None, 0),
        ("a: [\n", 2, 1, 0),
        ("- model\n", 2, 0, 0),
    ],
)
def test_build_and_terminal_agree(
    bench: Workbench, tmp_path: Path, text: str, status: int, line: int | None, notes: int
) -> None:
    path = tmp_path / "choices"
    path.write_text(text, encoding="utf-8")
    assert main(["check", str(path)]) == status
    checked = check(bench, text, {})
    assert (checked.experiment is None) == (status == 2)
    assert bool(checked.problems) == (status != 0)
    assert len(checked.notes) == notes
    if checked.problems:
        assert checked.problems[0].line == line
        assert checked.problems[0].message.zh != checked.problems[0].message.en


def test_a_lab_without_choices_starts_from_the_defaults(bench: Workbench) -> None:
    """As a page may; a file without choices is a mistake, which the terminal refuses."""
    checked = check(bench, "", {})
    assert checked.experiment is not None
    assert not checked.problems


def test_notes_name_their_line(bench: Workbench) -> None:
    (note,) = check(bench, "model: tiny\nstep: 3\n", {}).notes
    assert note.line == 1
    (note,) = check(bench, json.dumps(OLD, indent=2), {}).notes
    assert note.line == 4
