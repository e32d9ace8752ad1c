"""The tour and the provenance panel, live: stages one at a time, the experiment untouched until it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(name="page")
def page_fixture(context: Callable[..., BrowserContext], documentation: Path) -> Page:
    """The home page with the tour open and a clock that the test moves."""
    page = context().new_page()
    page.clock.install()
    page.goto(f"{documentation.as_uri()}/en/index.html")
    page.locator(".slime-lab--ready").wait_for()
    page.locator("[data-part=tour] > summary").click()
    return page


def stage(page: Page) -> str:
    """The one stage that is shown, by its name in the row of stages."""
    shown = page.locator("[data-part=tour-stage]:visible")
    expect(shown).to_have_count(1)
    return page.locator(".slime-lab__tour-marks [aria-current=step]").inner_text()


def shell(page: Page) -> str:
    return page.locator('[data-file="experiment.sh"] pre').evaluate("(pre) => pre.textContent")


def test_steps_by_hand(page: Page) -> None:
    """Next and back stop at the ends; columns of the table appear when their stage has been reached."""
    tour = page.locator("[data-part=tour]")
    assert stage(page).startswith("1.")
    expect(page.locator("table.slime-lab__table--answers")).to_be_hidden()
    for number in range(2, 6):
        tour.get_by_role("button", name="Next").click()
        assert stage(page).startswith(f"{number}.")
    tour.get_by_role("button", name="Next").click(force=True)
    assert stage(page).startswith("5.")
    tour.get_by_role("button", name="2. Eight answers").click()
    row = page.locator("table.slime-lab__table--answers tbody tr").first.locator("td")
    assert [cell.is_visible() for cell in row.all()] == [True, True, False, False, False]
    tour.get_by_role("button", name="3. Verifier").click()
    assert [cell.is_visible() for cell in row.all()] == [True, True, True, True, False]


def test_plays_and_pauses(page: Page) -> None:
    """Playing moves on by itself and ends; pausing and stepping stop it."""
    tour = page.locator("[data-part=tour]")
    tour.get_by_role("button", name="Play").click()
    page.clock.run_for(6_100)
    assert stage(page).startswith("2.")
    tour.get_by_role("button", name="Pause").click()
    page.clock.run_for(20_000)
    assert stage(page).startswith("2.")
    tour.get_by_role("button", name="Play").click()
    page.clock.run_for(40_000)
    assert stage(page).startswith("5.")
    expect(tour.get_by_role("button", name="Play")).to_be_visible()


def test_reduced_motion_moves_nothing(page: Page) -> None:
    """No stage fades in for readers who asked for less motion."""
    motion = "getComputedStyle(document.querySelector('[data-part=tour-stage]')).animationName"
    assert page.evaluate(motion) == "slime-lab-appear"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(motion) == "none"


def test_the_start_is_one_undoable_edit(page: Page) -> None:
    """Looking at the tour changes nothing; taking its start is one edit, and one undo brings back what was there."""
    page.locator('[data-field="model"] label', has_text="Tiny").click()
    mine = shell(page)
    tour = page.locator("[data-part=tour]")
    for _ in range(4):
        tour.get_by_role("button", name="Next").click()
    assert shell(page) == mine
    tour.get_by_role("button", name="Use this GRPO start").click()
    assert shell(page) != mine and "--advantage-estimator grpo" in shell(page)
    expect(page.get_by_role("status")).to_contain_text("GRPO start")
    page.get_by_role("button", name="Undo").click()
    assert shell(page) == mine


def test_provenance_follows_the_model(page: Page) -> None:
    """The list of sources is the one of the file that can be downloaded."""
    page.locator('[data-field="model"] label', has_text="Tiny").click()
    text = page.locator('[data-file="experiment.json"] pre').evaluate("(pre) => pre.textContent")
    rows = page.locator("table.slime-lab__table--sources tbody tr")
    shown = [row.locator("code").all_text_contents() for row in rows.all()]
    assert shown == [[one["path"], one["sha256"]] for one in json.loads(text)["provenance"]["sources"]]
    assert [path for path, _ in shown if path.startswith("recipes/launch/")] == ["recipes/launch/tiny.yaml"]
