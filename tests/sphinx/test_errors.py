"""A wrong experiment is a warning with the exact file and line, whatever the markup around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sphinx_slime_lab.testing import Build, Built


def line_of(path: Path, text: str, nth: int = 1) -> int:
    """The line of the nth occurrence of a text, found independently of the extension."""
    lines = [number for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if text in line]
    return lines[nth - 1]


CASES = [
    ("myst.md", "nodes: many", 1, "value", "nodes takes an integer"),
    ("myst.md", "layuot: separate", 1, "key", "The nearest is layout."),
    ("myst.md", "precision: bf17", 1, "value", "The nearest is bf16."),
    ("myst.md", "rollout: 12", 1, "finding", "E02: Rollout has 12 GPUs"),
    ("myst.md", 'mambaRatio: "-1"', 1, "finding", "E21:"),
    ("wrong.yaml", "rounds: 0", 1, "value", "rounds is 0"),
    ("myst.md", "rounds: 6", 1, "yaml", "the key rounds stands twice"),
    ("myst.md", "- model", 1, "yaml", "this is a list"),
    ("myst.md", "{recipe} glm-4.8", 1, "value", "The nearest is glm-4.7."),
    ("myst.md", "{lab} missing.yaml", 1, "file", "cannot read missing.yaml"),
    ("myst.md", "{slime:fact}", 1, "reference", "did you mean parallel.tp?"),
    ("myst.md", "{slime:rule}", 1, "reference", "there is no rule 'E99'"),
    ("rest.rst", "nodes: many", 1, "value", "nodes takes an integer"),
    ("rest.rst", "layuot: separate", 1, "key", "The nearest is layout."),
    ("included.txt", "task: mathh", 1, "value", "The nearest is math."),
]


@pytest.mark.parametrize(("name", "text", "nth", "subtype", "message"), CASES)
def test_names_file_and_line(broken: Built, name: str, text: str, nth: int, subtype: str, message: str) -> None:
    """MyST, reST, nested, listed, quoted, included and file arguments all point at the line of the key."""
    line = line_of(broken.source / name, text, nth)
    place = f"{name}:{line}: WARNING: "
    found = [one for one in broken.warnings if place in one and message in one]
    assert found, f"nothing at {place} {message}\n" + "\n".join(broken.warnings)
    assert found[0].endswith(f"[slime_lab.{subtype}]")


def test_expected_findings_are_silent(broken: Built) -> None:
    """``:expect:`` silences the findings it names, and complains about one that is not there."""
    assert not any("E14" in one or "E03" in one for one in broken.warnings)
    assert any(":expect: names E01" in one and one.endswith("[slime_lab.expect]") for one in broken.warnings)


def test_rejected_source_stays_readable(broken: Built) -> None:
    """The page shows the source and the messages of an experiment that could not be used."""
    page = broken.text("myst.html")
    assert "layuot: separate" in page
    assert "There is no choice named layuot. The nearest is layout. (line 2)" in page


def test_withheld_shell(broken: Built) -> None:
    """An experiment with errors shows picture and messages, and no shell; experiment.json stays."""
    listed = broken.output / "_downloads" / "slime-lab" / "myst" / "listed"
    assert [path.name for path in listed.iterdir()] == ["experiment.json"]
    assert "Rollout has 12 GPUs" in broken.text("myst.html")


def test_suppressed_by_subtype(build: Build) -> None:
    """Each kind of warning can be silenced alone."""
    built = build("broken", warnings=True, suppress_warnings=["slime_lab.finding", "slime_lab.key"])
    said = "\n".join(built.warnings)
    assert "E02" not in said and "layuot.yaml" not in said and "nodes takes an integer" in said


def test_planned_is_no_warning(build: Build) -> None:
    """The clean root has planned findings, and its build has no warning."""
    page = build("basic").text("recipes.html")
    assert "slime-lab__finding--planned" in page
