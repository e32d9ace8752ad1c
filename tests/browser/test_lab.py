"""The live lab in Chromium: every test runs over http and from disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


COMPARE = """(html) => {
  const built = new DOMParser().parseFromString(html, "text/html");
  const attributes = (element) =>
    [...element.attributes].filter((one) => one.name !== "xmlns").map((one) => `${one.name}=${one.value}`).sort();
  const picture = (root) =>
    [...root.querySelectorAll(".slime-lab__picture svg, .slime-lab__picture svg *")]
      .map((element) => [element.tagName, ...attributes(element), element.children.length ? "" : element.textContent]);
  const rows = (part) => (root) =>
    [...root.querySelectorAll(`[data-part=${part}] tbody tr`)]
      .map((row) => [...row.children].map((cell) => cell.textContent.trim()));
  const shell = (root) => root.querySelector('[data-file="experiment.sh"] pre').textContent;
  const parts = { picture, shell, layout: rows("layout"), choices: rows("choices"), why: rows("why") };
  return Object.keys(parts).filter((name) => {
    const [left, right] = [built, document].map((root) => JSON.stringify(parts[name](root)));
    return left !== right || left.length < 10;
  });
}"""
"""Names of the parts in which the live page differs from the built one."""

REMEMBER_COPY = """document.addEventListener("copy", () => {
  window.copied = document.getSelection().toString() || document.activeElement.value;
})"""


def rendered(checkout: Path, folder: Path, choices: str) -> bytes:
    """What the command line writes for the same choices, in the same checkout."""
    (folder / "choices.yaml").write_text(choices)
    command = [
        sys.executable,
        "-m",
        "slime.experiment",
        "render",
        str(folder / "choices.yaml"),
        "-o",
        str(folder / "out"),
    ]
    subprocess.run(command, check=True, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)})
    return (folder / "out" / "experiment.sh").read_bytes()


def test_choosing_tiny_changes_picture_findings_and_shell(visit: Visit, tmp_path: Path) -> None:
    """One click moves all of it; the download is the page's text and the command line's file."""
    page = visit.open()
    before = visit.file()
    assert page.locator(".slime-lab__picture rect.sl-gpu").count() == 8
    expect(page.locator("[data-part=planned]")).to_be_visible()
    visit.choose("model", "Tiny")
    assert page.locator(".slime-lab__picture rect.sl-gpu").count() == 1
    expect(page.locator("[data-part=planned]")).to_be_hidden()
    expect(page.locator("[data-part=findings]")).to_contain_text("float32")
    assert page.locator(".slime-lab__row--changed").count() > 10
    assert visit.file() != before and "--recipe tiny" in visit.file()
    with page.expect_download() as download:
        page.locator('[data-file="experiment.sh"] [data-action="download"]').click()
    assert download.value.suggested_filename == "experiment.sh"
    saved = Path(download.value.path()).read_bytes()
    assert saved == visit.file().encode()
    assert saved == rendered(visit.site.checkout, tmp_path, "model: tiny\n")


def test_page_starts_as_the_build_wrote_it(visit: Visit) -> None:
    """The live shell and picture of the untouched page are those of the HTML, attribute for attribute."""
    page = visit.open()
    built = (visit.site.folder / "en/index.html").read_text(encoding="utf-8")
    same = page.evaluate(COMPARE, built)
    assert same == []


def test_linked_changes_undo_redo_and_reset(visit: Visit) -> None:
    """Fully async moves to separate pools in one step that one undo takes back."""
    page = visit.open()
    visit.choose("schedule", "Fully async")
    layout = page.locator('[data-field="layout"] input:checked')
    expect(layout).to_have_value("separate")
    expect(page.get_by_role("status")).not_to_be_empty()
    page.get_by_role("button", name="Undo").click()
    expect(layout).to_have_value("colocate")
    page.get_by_role("button", name="Redo").click()
    expect(layout).to_have_value("separate")
    page.get_by_role("button", name="Reset").click()
    expect(layout).to_have_value("colocate")


def test_reload_keeps_the_choices(visit: Visit) -> None:
    """What was chosen is there after a reload, in the other language too, and nothing else is."""
    page = visit.open()
    visit.choose("model", "Tiny")
    wanted = visit.file()
    page.reload()
    assert visit.file() == wanted
    visit.open("zh/index.html")
    assert visit.file() == wanted


def test_errors_withhold_the_shell_and_lead_to_the_field(visit: Visit) -> None:
    """An error marks its step, hides the runnable files, and a button puts the focus on what is missing."""
    page = visit.open()
    visit.choose("model", "glm-4.7")
    page.get_by_role("button", name="Placement").click()
    page.locator('[data-field="nodes"] input').fill("3")
    page.locator('[data-field="nodes"] input').press("Tab")
    expect(page.locator(".slime-lab__finding--error").first).to_be_visible()
    expect(page.locator('[data-file="experiment.sh"] pre')).to_be_hidden()
    marked = page.locator(".slime-lab__step", has=page.locator(".slime-lab__step-mark:visible"))
    expect(marked.filter(has_text="Placement")).to_have_count(1)
    expect(marked.filter(has_text="Serving")).to_have_count(0)
    page.locator(".slime-lab__steps button").first.click()
    page.locator(".slime-lab__finding--error button", has_text="Go to").first.click()
    assert page.evaluate("document.activeElement.name || document.activeElement.id").endswith("nodes")
    page.get_by_role("tab", name="experiment.json").click()
    with page.expect_download() as download:
        page.locator('[data-file="experiment.json"] [data-action="download"]').click()
    assert '"nodes": 3' in Path(download.value.path()).read_text()


def test_repair_is_a_preview_first(visit: Visit) -> None:
    """A repair shows what it would change; applying it removes the finding, and undo brings it back."""
    page = visit.open()
    visit.choose("layout", "Disaggregated")
    page.locator('[data-field="rollout"] input').fill("12")
    page.locator('[data-field="rollout"] input').press("Enter")
    finding = page.locator(".slime-lab__finding--error").first
    expect(finding).to_contain_text("12")
    finding.locator("button", has_text="Repair").first.click()
    expect(finding.locator(".slime-lab__plan")).to_contain_text("12 → 16")
    finding.get_by_role("button", name="Apply").click()
    expect(page.locator(".slime-lab__finding--error")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".slime-lab__finding--error").first).to_contain_text("12")


def test_refused_number_says_why_and_keeps_the_old_value(visit: Visit) -> None:
    """A value outside the limits changes nothing and names the limits."""
    page = visit.open()
    before = visit.file()
    page.get_by_role("button", name="Placement").click()
    field = page.locator('[data-field="nodes"]')
    field.locator("input").fill("9999")
    field.locator("input").press("Enter")
    expect(field.locator(".slime-lab__refused")).to_contain_text("512")
    expect(field.locator("input")).to_have_value("1")
    assert visit.file() == before


def test_keyboard_keeps_focus(visit: Visit) -> None:
    """Arrow keys choose in a group of cards, and the focus and the scroll stay where they are."""
    page = visit.open()
    page.locator('[data-field="model"] input:checked').focus()
    page.keyboard.press("ArrowDown")
    focused = page.evaluate(
        "[document.activeElement.type, document.activeElement.checked, document.activeElement.value]"
    )
    assert focused[0] == "radio" and focused[1] is True and focused[2] != "glm-4.7-flash"
    page.get_by_role("tab", name="experiment.sh").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "experiment.json"
    page.keyboard.press("ArrowLeft")
    page.locator('[data-file="experiment.sh"] pre').focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".slime-lab__row--chosen")).to_have_count(1)
    expect(page.locator('[data-file="experiment.sh"] .slime-lab__reason code')).to_have_count(1)


def test_copy_without_clipboard_permission(visit: Visit) -> None:
    """Where the clipboard is closed, as on plain http from another host, copying still works and says so."""
    page = visit.open()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate(REMEMBER_COPY)
    page.locator('[data-file="experiment.sh"] [data-action="copy"]').click()
    expect(page.get_by_role("status")).to_contain_text("Copied experiment.sh")
    assert page.evaluate("window.copied") == visit.file()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_narrow_screen_never_scrolls_sideways(browser: Browser, visit: Visit, language: str) -> None:
    """At 320 px every step fits, and what can be pressed is 44 px high."""
    page = visit.page
    page.set_viewport_size({"width": 320, "height": 800})
    visit.open(f"{language}/index.html")
    for step in page.locator(".slime-lab__step").all():
        step.click()
        assert page.evaluate("document.documentElement.scrollWidth") == 320
    heights = page.evaluate(
        """[...document.querySelectorAll(".slime-lab :is(button, summary, .slime-lab__card, .slime-lab__input)")]
          .filter((el) => el.offsetParent).map((el) => el.getBoundingClientRect().height)"""
    )
    assert heights and min(heights) >= 44


def test_without_javascript_everything_is_there(browser: Browser, visit: Visit) -> None:
    """No script: picture, findings, shell and a working link to the same file; no dead button."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(visit.site.url("en/index.html"))
    expect(page.locator(".slime-lab__picture svg")).to_be_visible()
    text = page.locator('[data-file="experiment.sh"] pre').text_content()
    link = page.locator('[data-file="experiment.sh"] [data-action="download"]')
    target = visit.site.folder / "en" / str(link.get_attribute("href"))
    assert target.read_text(encoding="utf-8") == text
    expect(page.locator('[data-file="experiment.sh"] [data-action="copy"]')).to_be_hidden()
    context.close()
