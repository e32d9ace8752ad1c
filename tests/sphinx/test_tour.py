"""The tour of one round in the built page: complete without JavaScript, with the engine's numbers."""

from __future__ import annotations

import re
from html import unescape

import pytest

from slime.experiment.catalog import load_catalog
from sphinx_slime_lab.testing import Build


@pytest.fixture(name="project")
def project_fixture(build: Build) -> str:
    """The home page of the clean project, with a tour in its lab."""
    built = build("basic")
    source = built.source
    page = source / "index.md"
    page.write_text(page.read_text(encoding="utf-8").replace(":title: The lab\n", ":title: The lab\n:tour:\n"))
    return build("basic", source=source).text("index.html")


def part(text: str) -> str:
    """The tour as it stands in the page."""
    found = text[text.index('data-part="tour"') :]
    return found[: found.index("</details>")]


def test_tour_is_complete_without_script(project: str) -> None:
    """Five stages with a picture and their sentence, and a row with reward and advantage for each answer."""
    tour = load_catalog().tour()
    shown = part(project)
    plain = unescape(re.sub(r"<[^>]+>", "", shown))
    assert shown.count('data-part="tour-stage"') == shown.count("<svg") == 5
    for stage in tour.stages:
        assert stage.text.en in plain
    for one in tour.answers:
        assert one.text in plain and one.reason.en in plain
    assert plain.count("+0.9354") == plain.count("−0.9354") == 4
    for number in ("0.5", "√(2/7)", "+0.94", "−0.94"):
        assert number in plain
    assert "no measured training" in plain


def test_pictures_show_the_rewards(project: str) -> None:
    """Marks for right and wrong answers and bars up and down are as many as the rewards."""
    shown = part(project)
    assert shown.count('class="sl-box sl-right"') == shown.count('class="sl-box sl-wrong"') == 4
    assert shown.count('class="sl-box sl-train sl-down"') == 4
    ids = re.findall(r' id="([^"]+)"', project)
    assert len(ids) == len(set(ids))


def test_no_tour_unless_asked_for(build: Build) -> None:
    """A lab without the option has none, and a recipe does not take it."""
    built = build("basic")
    assert 'data-part="tour"' not in built.text("index.html")
    page = built.source / "recipes.md"
    page.write_text("# Recipes\n\n```{recipe} tiny\n:tour:\n```\n")
    again = build("basic", source=built.source, warnings=True)
    assert any("tour" in one for one in again.warnings)
