"""Undo, redo, what the browser keeps, and two tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


def test_undo_goes_over_edits_only(reader: Visit) -> None:
    """Walking through the steps records nothing; one undo takes back an edit with all that was linked, and says so."""
    page = reader.open()
    reader.choose("schedule", "async")
    expect(page.get_by_role("status").first).not_to_be_empty()
    for step in page.locator(".slime-lab__step").all():
        step.click()
    assert reader.choices()["layout"] == "separate"
    reader.button("undo").click()
    assert (reader.choices()["layout"], reader.choices()["schedule"]) == ("colocate", "sync")
    undo = reader.button("undo")
    expect(undo).to_have_attribute("aria-disabled", "true")
    status = page.locator(".slime-lab__status")
    expect(status).to_contain_text(reader.word("undone", names="").strip())
    reader.button("redo").click()
    assert reader.choices()["layout"] == "separate"


def test_undo_by_keyboard_wherever_the_focus_is(reader: Visit) -> None:
    """On a card, in a committed number and outside the lab it is the lab's; in a text being typed, the browser's."""
    page = reader.open()
    reader.choose("model", "tiny")
    page.keyboard.press("Control+z")
    assert reader.choices()["model"] == "glm-4.7-flash"
    page.keyboard.press("Control+Shift+z")
    assert reader.choices()["model"] == "tiny"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Control+z")
    assert reader.choices()["model"] == "glm-4.7-flash"
    reader.type("nodes", 2)
    expect(page.locator('[data-field="nodes"] input')).to_be_focused()
    page.keyboard.press("Control+z")
    assert reader.choices()["nodes"] == 1
    expect(page.locator('[data-field="nodes"] input')).to_have_value("1")
    box = reader.field("data").locator("input")
    reader.type("data", "/data/mine.jsonl")
    box.press("End")
    page.keyboard.type("x")
    page.keyboard.press("Control+z")
    expect(box).to_have_value("/data/mine.jsonl")
    assert reader.choices()["data"] == "/data/mine.jsonl"
    page.keyboard.press("Control+z")
    assert reader.choices()["data"] != "/data/mine.jsonl"
    search = page.locator("input.sidebar-search").first
    search.fill("abc")
    before = reader.choices()
    search.press("Control+z")
    assert reader.choices() == before


def test_two_tabs_do_not_overwrite_each_other(reader: Visit) -> None:
    """The slower tab is told what differs, keeps its own experiment, and chooses; theirs is one undoable edit."""
    page = reader.open()
    other = page.context.new_page()
    other.goto(page.url)
    reader.choose("model", "tiny")
    notice = other.locator('[data-notice="conflict-b"]')
    expect(notice).to_contain_text("Tiny")
    other.locator('[data-field="nodes"]').evaluate(
        "(field) => { const i = field.querySelector('input'); i.value = '2'; i.dispatchEvent(new Event('change')); }"
    )
    assert (reader.kept() or {})["model"] == "tiny"
    notice.get_by_role("button", name=reader.word("conflict_theirs")).click()
    expect(notice).to_have_count(0)
    assert '"model": "tiny"' in str(other.locator('[data-file="experiment.json"] pre').text_content())
    other.get_by_role("button", name=reader.word("undo"), exact=True).click()
    assert '"nodes": 2' in str(other.locator('[data-file="experiment.json"] pre').text_content())
    expect(page.locator('[data-notice="conflict-b"]')).to_contain_text("GLM-4.7-Flash")
    page.locator('[data-notice="conflict-b"]').get_by_role("button", name=reader.word("conflict_mine")).click()
    assert (reader.kept() or {})["model"] == "tiny"
    assert reader.choices()["model"] == "tiny"


def test_closed_or_damaged_storage_is_said(reader: Visit) -> None:
    """A page that may keep nothing goes on and says so; a record that cannot be read is put aside."""
    page = reader.open()
    reader.choose("model", "tiny")
    page.evaluate("Object.keys(localStorage).forEach((key) => localStorage.setItem(key, '{not json'))")
    page.reload()
    expect(page.locator('[data-notice="damaged"]')).to_be_visible()
    assert reader.choices()["model"] == "glm-4.7-flash"
    page.add_init_script("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }")
    page.reload()
    reader.choose("model", "tiny")
    expect(page.locator('[data-notice="unkept"]')).to_contain_text("experiment.json")
    assert reader.choices()["model"] == "tiny"
