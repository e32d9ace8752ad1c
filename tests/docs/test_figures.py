"""The figures of the guides: numbers against the formulas, marks inside the picture, both languages alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sphinx_slime_lab import formulas
from sphinx_slime_lab.figures import FIGURES, packages, pipeline
from sphinx_slime_lab.locale import LANGUAGES
from sphinx_slime_lab.testing import site_builder


@pytest.mark.parametrize("name", FIGURES)
def test_both_languages_draw_the_same_numbers(name: str) -> None:
    """Boxes, curves and cells are equal; only words differ, and every picture says in words what it shows."""
    zh, en = (FIGURES[name](language) for language in LANGUAGES)
    for one, other in zip(zh.figure.marks, en.figure.marks, strict=True):
        assert one[:2] == other[:2]
    cells = [[re.sub(r"[^\d.%×()−+ ]", "", cell) for row in drawn.rows for cell in row[1:]] for drawn in (zh, en)]
    assert cells[0] == cells[1]
    assert zh.figure.title != en.figure.title and zh.figure.description != en.figure.description
    assert all(len(row) == len(drawn.heads) for drawn in (zh, en) for row in drawn.rows)


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_lies_outside_or_has_a_colour_of_its_own(name: str) -> None:
    """Geometry stays in the view box; colours come from the stylesheet, so both themes can be read."""
    figure = FIGURES[name]("en").figure
    svg = figure.svg("x")
    assert "style=" not in svg and "fill=" not in svg and "stroke=" not in svg
    for _, attributes, _ in figure.marks:
        right = attributes.get("x", 0) + attributes.get("width", 0)
        below = attributes.get("y", 0) + attributes.get("height", 0)
        ends = [attributes[key] for key in ("x1", "x2") if key in attributes]
        assert 0 <= right <= figure.width and below <= figure.height and all(0 <= one <= figure.width for one in ends)


def test_groups_show_the_advantages() -> None:
    rows = {row[0]: row for row in FIGURES["groups"]("en").rows}
    assert rows["4"][1:] == ("0.5345", "+0.935", "−0.935")
    assert rows["0"][2:] == ("—", "0") and rows["8"][2:] == ("0", "—")


def test_bubble_has_a_block_for_every_pass() -> None:
    drawn = FIGURES["bubble"]("en")
    boxes = [mark for mark in drawn.figure.marks if mark[0] == "rect"]
    assert len(boxes) == 2 * pipeline.STAGES * pipeline.MICRO_BATCHES
    row = next(row for row in drawn.rows if row[0] == "4")
    assert row[4] == f"{formulas.bubble(4, 8):.1%}" == "27.3%"


def test_packages_are_read_from_the_source() -> None:
    """The contract of imports in the picture: algorithms import nothing else, megatron and sglang not each other."""
    found = packages.imports()
    assert ("megatron", "data") in found and ("cluster", "sglang") in found
    assert not [pair for pair in found if pair[0] == "algorithms"]
    assert ("megatron", "sglang") not in found and ("sglang", "megatron") not in found
    squares = [mark for mark in FIGURES["packages"]("en").figure.marks if "sl-train" in str(mark[1].get("class"))]
    assert len(squares) == sum(one in packages.ORDER and other in packages.ORDER for one, other in found)


def test_directives_and_roles_stand_on_a_page(tmp_path: Path) -> None:
    """Numbers, states and figures as HTML; wrong names are warned of with the nearest."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\n')
    (source / "index.rst").write_text(
        "T\n=\n\n:slime:calc:`bubble(4, 8); .1%` :slime:state:`--use-tis` :slime:calc:`bubbel(1, 1)`\n\n"
        ".. slime:figure:: bubble\n\n.. slime:figure:: bubbel\n\n.. slime:status:: --use-tis --use-tiss\n\n"
        ".. slime:budgets::\n"
    )
    with site_builder(tmp_path, tmp_path) as build:
        built = build("", source=source, warnings=True)
    page = built.text("index.html")
    assert '<span class="slime-fact">27.3%</span> <span class="slime-fact">runs</span>' in page
    assert page.count("<svg") == 1 and "GLM-4.7-Flash" in page
    assert [one for one in built.warnings if "did you mean bubble?" in one]
    assert [one for one in built.warnings if "'bubbel'; write bubble" in one]
    assert [one for one in built.warnings if "did you mean --use-tis?" in one]
