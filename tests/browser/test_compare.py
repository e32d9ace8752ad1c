"""A against B: A stands still, B is edited, and both are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


def panel(reader: Visit) -> Locator:
    """The comparison, opened."""
    details = reader.page.locator("[data-part=compare]")
    if details.get_attribute("open") is None:
        reader.page.locator(".slime-lab__bar button", has_text="A / B").click()
    return details


def test_a_stands_still_while_b_is_edited(reader: Visit) -> None:
    """Edits, undo, redo and a reload leave A; the differences tell linked changes, lines, totals and findings."""
    page = reader.open()
    reader.button("a_save").click()
    a = reader.kept("a")
    reader.choose("schedule", "async")
    reader.field("pd").locator("input").check()
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+Shift+z")
    assert reader.kept("a") == a
    details = panel(reader)
    lines = details.locator("table").nth(3).locator("tbody tr")
    assert [cell.strip() for cell in lines.filter(has_text="--colocate").locator("td").all_inner_texts()] == [
        reader.word("line_removed"), "--colocate", ""
    ]  # fmt: skip
    expect(lines.filter(has_text="--skip-eval-before-train")).to_contain_text(reader.word("line_added"))
    expect(details.locator("table").nth(2)).to_contain_text("E14")
    rows = details.locator("table").nth(0).locator("tbody tr")
    ray = rows.filter(has_text=reader.word("gpus_ray")).locator("td")
    assert ray.all_inner_texts()[1:] == ["8", "16"]
    errors = rows.filter(has_text=reader.word("errors")).locator("td")
    assert errors.all_inner_texts()[1] == "0" and int(errors.all_inner_texts()[2]) > 0
    because = details.locator("table").nth(1).locator("tbody tr td:last-child").all_inner_texts()
    assert sum(bool(text.strip()) for text in because) == 1
    page.reload()
    assert reader.kept("a") == a
    expect(page.locator("[data-part=compare] summary")).to_contain_text("3")
    assert reader.choices()["schedule"] == "async", "the files are B's"


def test_restore_is_one_edit_and_a_is_no_part_of_it(reader: Visit) -> None:
    """Restoring is undone at once; updating and clearing A leave B's history, and the earlier A can come back."""
    page = reader.open()
    reader.button("a_save").click()
    expect(reader.button("undo")).to_have_attribute("aria-disabled", "true")
    reader.choose("model", "tiny")
    panel(reader)
    reader.button("a_restore").click()
    assert reader.choices()["model"] == "glm-4.7-flash"
    reader.button("undo").click()
    assert reader.choices()["model"] == "tiny"
    reader.button("a_update").click()
    assert (reader.kept("a") or {})["model"] == "tiny"
    page.locator('[data-notice="replaced-a"]').get_by_role("button", name=reader.word("a_back")).click()
    assert (reader.kept("a") or {})["model"] == "glm-4.7-flash"
    reader.button("a_clear").click()
    assert reader.kept("a") is None
    assert reader.choices()["model"] == "tiny"
    reader.button("undo").click()
    assert reader.choices()["model"] == "glm-4.7-flash"
    assert reader.kept("a") is None


def test_a_link_of_both_is_filtered_on_both_sides(reader: Visit) -> None:
    """Private choices of A and of B stay here; opening it shows the comparison and leaves the visitor's own A."""
    page = reader.open()
    reader.type("data", "/secret/a.jsonl")
    reader.button("a_save").click()
    reader.type("data", "/secret/b.jsonl")
    reader.choose("model", "tiny")
    reader.button("share").click()
    page.locator("#lab-share input[type=checkbox]").check()
    link = page.locator("#lab-share input[type=text]").input_value()
    assert "secret" not in link and "lab-a=1;first" in link
    reader.choose("model", "glm-4-9b")
    panel(reader)
    reader.button("a_update").click()
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator('[data-notice="visit"]')).to_be_visible()
    expect(panel(reader)).to_contain_text("--recipe glm-4.7-flash")
    assert (reader.kept("a") or {})["model"] == "glm-4-9b"
    reader.button("visit_leave").click()
    assert (reader.kept("a") or {})["model"] == "glm-4-9b"
