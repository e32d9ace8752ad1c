"""Numbers that the recipes hold are not typed by hand, and every link inside the pages has a target."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from slime.config.preflight import RULES
from slime.experiment.facts import load_facts
from slime.experiment.loading import load_tables
from sphinx_slime_lab.facts import fact_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
# Smaller numbers count other things too: steps, stages, columns.
SMALLEST = 11
# A name may hold numbers, which say nothing of the recipe's dimensions.
_NAMES = re.compile(r"GLM-[\d.]+(?:-\w+)*|Qwen[\d.]+(?:-\w+)*|DeepSeek-[RV][\d.]*")


def _prose(page: Path) -> list[str]:
    """Paragraphs without code, roles, formulas, links and names."""
    text = (DOCS / page).read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^(`{3,}|:{3,}).*?^\1", "", text)
    text = re.sub(r"(?s)\$\$.*?\$\$|\$[^$\n]+\$", "", text)
    text = re.sub(r"\{[\w:]+\}`[^`]*`|`[^`]*`|\]\([^)]*\)", "", text)
    return text.split("\n")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_numbers_of_a_recipe_come_by_role(page: Path) -> None:
    """In a line that names a recipe no bare number is one of its facts."""
    for line in _prose(page):
        numbers = {int(one) for one in re.findall(r"(?<![A-Za-z\d.,])\d{2,}(?![\d.,]*\d)", _NAMES.sub("", line))}
        for recipe, (name, held) in _held().items():
            if numbers & held and re.search(re.escape(name) + r"(?!-)", line):
                raise AssertionError(f"{page}: {sorted(numbers & held)} of {recipe}: write them by role\n{line}")


@cache
def _held() -> dict[str, tuple[str, set[int]]]:
    """For each recipe its name and the whole numbers that it holds."""
    facts = load_facts()
    return {
        recipe: (
            launch.display,
            {one for one in fact_table(facts, recipe).values() if isinstance(one, int) and one >= SMALLEST},
        )
        for recipe, launch in facts.launch.items()
    }


@cache
def _targets(tree: str) -> set[str]:
    found: set[str] = set()
    for path in (DOCS / tree).rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
        found |= set(re.findall(r"^:name: ([\w-]+)$", text, re.MULTILINE))
    # The reference pages make labels as well: one for each rule of `slime check`.
    return found | {f"preflight-{rule.id}" for rule in RULES}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_inside_the_pages_have_targets(page: Path) -> None:
    """Labels of the same tree, and files that are there."""
    text = re.sub(r"(?ms)^(`{3,}).*?^\1", "", (DOCS / page).read_text(encoding="utf-8"))
    labels = set(re.findall(r"\{ref\}`(?:[^`<]*<)?([\w-]+)>?`", text))
    assert not labels - _targets(page.parts[0])
    for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[\w-]+)?\)", text):
        assert ((DOCS / page).parent / link).is_file(), link


def test_guides_of_choices_are_sections_of_both_trees() -> None:
    """The pages of choices and rules link to them; nearly every choice has one."""
    fields = load_tables().fields
    guides = {one.name: one.guide for one in fields if one.guide is not None}
    for tree in ("en", "zh"):
        assert {name: guide for name, guide in guides.items() if guide not in _targets(tree)} == {}
    assert {one.name for one in fields} - set(guides) == {"image"}
