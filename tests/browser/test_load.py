"""Loading JSON: a file or a pasted text, refused with reasons or taken as one undoable edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


def panel(reader: Visit) -> Locator:
    """The panel, opened."""
    reader.button("load").click()
    return reader.page.locator("#lab-load")


def paste(reader: Visit, text: str) -> Locator:
    """Paste a text and load it."""
    place = panel(reader) if reader.page.locator("#lab-load").is_hidden() else reader.page.locator("#lab-load")
    place.locator("textarea").fill(text)
    place.get_by_role("button", name=reader.word("load_now"), exact=True).click()
    return place


def test_an_export_comes_back_as_one_edit(reader: Visit, tmp_path: Path) -> None:
    """The page's own file is read back; its provenance is the page's, and one undo returns."""
    page = reader.open()
    reader.choose("model", "tiny")
    saved = json.loads(reader.file("experiment.json"))
    reader.button("undo").click()
    before = reader.choices()
    saved["provenance"] = {"commit": "f" * 40}
    place = tmp_path / "experiment.json"
    place.write_text(json.dumps(saved))
    panel(reader).locator("input[type=file]").set_input_files(place)
    expect(page.locator("#lab-load")).to_be_hidden()
    assert reader.choices()["model"] == "tiny"
    assert "f" * 40 not in reader.file("experiment.json")
    reader.button("undo").click()
    assert reader.choices() == before


def test_earlier_exports_and_what_is_left_out(reader: Visit) -> None:
    """Schema 1 with its model names is read; keys and values that were not used are listed, as text."""
    reader.open()
    choices = {"model": "dense", "step": 2, "nodes": "four", "colour": "<b>red</b>"}
    paste(reader, json.dumps({"schema": 1, "choices": choices, "files": {}}))
    assert reader.choices()["model"] == "glm-4-9b"
    notice = reader.page.locator('[data-notice="loaded"]')
    for text in ("step", "nodes", "colour", "files"):
        expect(notice).to_contain_text(text)
    assert notice.locator("b").count() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: tiny", "JSON"),
        ('{"schema": 9, "choices": {}}', "9"),
        ('{"colour": 1}', "model"),
        ('{"model": "tiny", "model": "tiny"}', "model"),
        ("[" * 4000, "32"),
        ('{"__proto__": {"model": "tiny"}}', "model"),
        ('{"model": "' + "x" * 300_000 + '"}', "262144"),
    ],
    ids=["not JSON", "schema", "nothing known", "twice", "deep", "prototype", "large"],
)
def test_refusals_give_their_reason(visit: Visit, text: str, said: str) -> None:
    """A refusal is an alert beside the text, which stays; nothing changes."""
    page = visit.open()
    before = visit.choices()
    place = paste(visit, text)
    alert = place.get_by_role("alert")
    expect(alert).to_contain_text(said)
    expect(place.locator("textarea")).to_have_attribute("aria-invalid", "true")
    assert visit.choices() == before
    assert page.evaluate("({}).model") is None


def test_files_that_cannot_be_text(visit: Visit, tmp_path: Path) -> None:
    """A file that is too large or no UTF-8 is refused; the panel closes with Escape and gives the focus back."""
    page = visit.open()
    place = panel(visit)
    (tmp_path / "large.json").write_bytes(b" " * 300_000)
    place.locator("input[type=file]").set_input_files(tmp_path / "large.json")
    expect(place.get_by_role("alert")).to_contain_text("262144")
    (tmp_path / "latin.json").write_bytes(b'{"model": "\xe9"}')
    place.locator("input[type=file]").set_input_files(tmp_path / "latin.json")
    expect(place.get_by_role("alert")).to_contain_text("UTF-8")
    place.locator("textarea").press("Escape")
    expect(place).to_be_hidden()
    assert page.evaluate("document.activeElement.textContent") == visit.word("load")
