"""The panel of memory follows edits, with the engine's own numbers; an image is one edit that placement answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from slime.experiment.catalog import load_catalog

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


def test_the_panel_of_memory_follows_edits(reader: Visit) -> None:
    catalog = load_catalog()
    page = reader.open()
    panel = page.locator(".slime-lab [data-part=memory]")
    panel.locator("summary").click()
    reader.choose("model", "glm-5.3")
    reader.field("cpuAdam").locator("input").uncheck()
    for phase in catalog.memory(reader.choices()):
        for row in phase.rows:
            line = panel.locator("tbody tr", has_text=row.formulas[0].get(reader.language)).first
            sizes = ["—" if cell is None else cell.text for cell in row.cells]
            expect(line.locator("td:not(:first-child)")).to_have_text(sizes)
    panel.locator("summary").click()
    reader.choose("model", "tiny")
    panel.locator("summary").click()
    expect(panel).to_contain_text("426.8 × 10³")


def test_choosing_an_image_is_one_edit_with_a_note(reader: Visit) -> None:
    page = reader.open()
    section = page.locator(".slime-lab [data-part=install]")
    section.locator("summary").click()
    button = section.get_by_role("button", name="B200")
    expect(button).to_have_attribute("aria-pressed", "false")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".slime-lab__finding--note", has_text="H02")).to_have_count(1)
    assert reader.choices()["image"] == "cu130"
    reader.button("undo").click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert reader.choices()["image"] == "unknown"
    button.click()
    button.click()
    assert reader.choices()["image"] == "unknown", "a second press takes it back"
    reader.choose("model", "tiny")
    expect(button).to_be_hidden()
