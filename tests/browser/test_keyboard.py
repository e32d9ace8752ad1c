"""A whole experiment without a pointer: every step, undo and redo, A and B, a link, and the finished files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser

MOST_TABS = 120


class Keys:
    """Moves and presses by keyboard alone; each stop must show that it has the focus."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.page = visit, visit.page

    def to(self, selector: str, key: str = "Tab") -> None:
        """Press Tab until the element of the selector has the focus. Fails when the keyboard does not get there."""
        seen = []
        for _ in range(MOST_TABS):
            self.page.keyboard.press(key)
            at = "(wanted) => [document.activeElement.matches(wanted), document.activeElement.outerHTML.slice(0, 80)]"
            found, shown = self.page.evaluate(at, selector)
            if found:
                assert self.page.evaluate(VISIBLE_FOCUS), f"{shown} does not show that it has the focus"
                return
            seen.append(shown)
        raise AssertionError(f"{MOST_TABS} presses of {key} do not reach {selector}: " + "\n".join(seen[-12:]))

    def button(self, key: str, press: str = "Enter") -> None:
        """Go to the button with a text of the extension and press it."""
        name = self.visit.word(key)
        self.page.evaluate(MARK, name)
        self.to("[data-wanted]")
        self.page.keyboard.press(press)

    def choose(self, field: str, value: str) -> None:
        """Go to a group of cards and move with the arrow to a value."""
        self.to(f'[data-field="{field}"] input')
        for _ in range(12):
            if self.page.evaluate("document.activeElement.value") == value:
                return
            self.page.keyboard.press("ArrowDown")
        raise AssertionError(f"the arrow does not reach {field} = {value}")

    def toggle(self, field: str) -> None:
        """Go to a check box and press Space."""
        self.to(f'[data-field="{field}"] input')
        self.page.keyboard.press("Space")

    def type(self, field: str, text: str) -> None:
        """Go to a box, replace what stands in it, and commit with Enter."""
        self.to(f'[data-field="{field}"] input')
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")


VISIBLE_FOCUS = """(() => {
  const shown = [document.activeElement, document.activeElement.closest("label")].filter(Boolean);
  return shown.some((one) => getComputedStyle(one).outlineStyle !== "none" || one.matches(".slime-lab__step-title"));
})()"""
MARK = """(name) => {
  document.querySelectorAll("[data-wanted]").forEach((one) => one.removeAttribute("data-wanted"));
  const shown = [...document.querySelectorAll(".slime-lab button")].filter((one) => one.checkVisibility());
  shown.filter((one) => one.textContent === name).forEach((one) => one.setAttribute("data-wanted", ""));
}"""


def test_a_whole_experiment_by_keyboard(reader: Visit) -> None:
    """From the first choice to the downloaded shell; the focus is always to be seen and never lost."""
    page, keys = reader.open(), Keys(reader)
    keys.choose("model", "glm-4-9b")
    keys.button("next")
    expect(page.locator('[data-step="placement"] .slime-lab__step-title')).to_be_focused()
    keys.choose("layout", "separate")
    keys.type("rollout", "4")
    keys.button("next")
    keys.choose("kv", "fp8")
    keys.button("next")
    keys.choose("correction", "icepop")
    keys.button("next")
    keys.toggle("hicache")
    keys.type("concurrency", "64")
    keys.button("next")
    keys.type("save", "/data/by-keyboard")
    finished = {
        "model": "glm-4-9b", "layout": "separate", "rollout": 4, "kv": "fp8", "correction": "icepop",
        "hicache": True, "concurrency": 64, "save": "/data/by-keyboard",
    }  # fmt: skip
    assert {name: reader.choices()[name] for name in finished} == finished
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    undone = reader.choices()
    assert (undone["save"], undone["concurrency"]) != ("/data/by-keyboard", 64)
    page.keyboard.press("Control+Shift+z")
    page.keyboard.press("Control+Shift+z")
    assert {name: reader.choices()[name] for name in finished} == finished

    keys.button("to_files")
    expect(page.get_by_role("tab", name="experiment.sh")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="experiment.json")).to_be_focused()
    page.keyboard.press("Home")
    keys.to('[data-file="experiment.sh"] [data-action="download"]')
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    assert waiting.value.path().read_text(encoding="utf-8") == reader.file()
    keys.to('[data-file="experiment.sh"] pre')
    page.keyboard.press("ArrowDown")
    expect(page.locator('[data-file="experiment.sh"] .slime-lab__reason code')).not_to_be_empty()


def test_comparison_link_and_loading_by_keyboard(reader: Visit) -> None:
    """Save A, edit B, restore; open, copy and close the link; paste an experiment; go to the choice of a finding."""
    page, keys = reader.open(), Keys(reader)
    before = reader.choices()
    keys.button("a_save")
    keys.choose("model", "tiny")
    page.evaluate("document.body.focus()")
    keys.to("[data-part=compare] > summary")
    page.keyboard.press("Enter")
    keys.button("a_restore")
    assert reader.choices() == before
    page.keyboard.press("Control+z")
    assert reader.choices()["model"] == "tiny"

    page.evaluate("window.scrollTo(0, 0); document.activeElement.blur()")
    keys.button("share")
    link = page.locator("#lab-link")
    expect(link).to_be_focused()
    assert "lab=1;laptop" in link.input_value()
    keys.button("copy")
    expect(page.locator("#lab-share")).to_contain_text(reader.word("copied", name=reader.word("link")))
    page.keyboard.press("Escape")
    expect(page.locator("#lab-share")).to_be_hidden()
    assert page.evaluate("document.activeElement.textContent") == reader.word("share")

    keys.button("load")
    expect(page.locator("#lab-json")).to_be_focused()
    page.keyboard.insert_text(json.dumps({"model": "glm-4.7-flash", "pd": True}))
    keys.button("load_now")
    assert reader.choices()["pd"] is True
    page.evaluate("window.scrollTo(0, 0); document.activeElement.blur()")
    keys.button("show_field")
    expect(page.locator("[data-field] :focus")).to_have_count(1)
