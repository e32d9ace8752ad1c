"""Repairs, disabled choices, findings that lead to their field, run steps, narrow screens and print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


def test_pd_repair_previews_both_ways(reader: Visit) -> None:
    """PD on one node: more nodes or separate pools, with fields, GPUs and what stays open; one undo returns."""
    page = reader.open()
    reader.field("pd").locator("input").check()
    before = reader.choices()
    finding = page.locator(".slime-lab__finding--error", has_text="E03")
    buttons = finding.get_by_role("button", name=reader.word("repair"))
    assert buttons.count() == 2
    buttons.nth(0).click()
    plan = finding.locator(".slime-lab__plan")
    expect(plan).to_contain_text("1 → 2")
    expect(plan).to_contain_text("8 → 16")
    expect(plan).to_contain_text("E14")
    assert reader.choices() == before, "a preview changes nothing"
    buttons.nth(1).click()
    expect(plan).to_contain_text("8 → 24")
    plan.get_by_role("button", name=reader.word("apply")).click()
    after = reader.choices()
    assert (after["layout"], after["rollout"], after["prefill"], after["ib"]) == ("separate", 16, 8, "")
    assert {name for name in after if after[name] != before[name]} <= {"layout", "rollout", "prefill", "transport"}
    reader.button("undo").click()
    assert reader.choices() == before


def test_a_disabled_choice_says_why(reader: Visit) -> None:
    """What cannot be chosen stays in its place, with the reason in the words of the page."""
    page = reader.open()
    reader.choose("model", "tiny")
    card = reader.field("layout").locator('label:has(input[value="separate"])')
    expect(card.locator("input")).to_be_disabled()
    why = page.evaluate(
        "SlimeLabData.catalog.fields.find((field) => field.name === 'layout').options[0].why[SlimeLabData.language]"
    )
    expect(card.locator(".slime-lab__card-why")).to_have_text(why)
    reader.choose("model", "glm-4-9b")
    expect(reader.field("layout").locator('input[value="separate"]')).to_be_enabled()
    expect(card.locator(".slime-lab__card-why")).to_be_hidden()


def test_a_finding_leads_to_its_field_and_steps_carry_marks(reader: Visit) -> None:
    """From the export area too: the step opens and the empty field has the focus; the mark goes with the error."""
    page = reader.open()
    reader.choose("layout", "external")
    expect(page.locator(".slime-lab__step-mark:visible")).to_have_count(2)
    rule = page.locator(".slime-lab__finding--error a").first
    expect(rule).to_have_text("E11")
    target = str(rule.get_attribute("href"))
    assert page.evaluate("(url) => new URL(url, location.href).href", target).startswith(reader.site.address)
    place, anchor = target.split("#")
    assert f'id="{anchor}"' in (reader.site.folder / reader.language / place).read_text(encoding="utf-8")
    page.locator(".slime-lab__step").first.click()
    page.locator('[data-file="experiment.sh"] .slime-lab__blocked').get_by_role("button").first.click()
    expect(page.locator('[data-field="endpoints"] input')).to_be_focused()
    page.keyboard.type("http://10.0.0.1:30000")
    page.keyboard.press("Enter")
    expect(page.locator(".slime-lab__step-mark:visible")).to_have_count(0)
    expect(page.locator('[data-file="experiment.sh"] pre')).to_be_visible()


def test_run_steps_have_the_numbers_of_the_experiment(reader: Visit) -> None:
    """GPUs of Ray and conversion nodes follow the choices; built and live pages say the same."""
    page = reader.open()
    steps = page.locator("[data-part=run] li")
    built = (reader.site.folder / reader.language / "index.html").read_text(encoding="utf-8")
    script = """(html) => [...new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part=run] li")]
      .map((li) => li.textContent.trim())"""
    assert page.evaluate(script, built) == [text.strip() for text in steps.all_text_contents()]
    reader.choose("model", "deepseek-r1")
    expect(steps.nth(1)).to_contain_text("CONVERT_NODE_RANK")
    for number in ("4", "8", "0", "3"):
        expect(steps.nth(1)).to_contain_text(number)
    expect(steps.nth(2)).to_contain_text("128")
    reader.choose("layout", "external")
    expect(steps.nth(2)).to_contain_text("serving-reference.sh")
    reader.choose("model", "tiny")
    expect(steps.nth(1)).to_contain_text("CPU")


def test_a_line_explains_itself_outside_the_copied_text(reader: Visit) -> None:
    """Reason, choice, rule and source stand beside the text, never in it."""
    page = reader.open()
    whole = page.locator('[data-file="experiment.sh"] .slime-lab__all')
    expect(whole).to_have_attribute("aria-expanded", "false")
    whole.click()
    expect(whole).to_have_text(reader.word("lines_less"))
    page.locator(".slime-lab__row[data-why]", has_text="--actor-num-nodes").hover()
    reason = page.locator('[data-file="experiment.sh"] .slime-lab__reason')
    for text in ("--actor-num-nodes 1", "P01", "recipes/", page.locator('[data-field="nodes"] label').inner_text()):
        expect(reason).to_contain_text(text)
    assert reason.inner_text() not in reader.file()


def test_narrow_screens_show_the_picture_first(reader: Visit) -> None:
    """The picture folds, a button brings it back into view, and open tools never scroll sideways."""
    page = reader.page
    page.set_viewport_size({"width": 320, "height": 700})
    reader.open()
    picture = page.locator(".slime-lab__picture")
    assert picture.bounding_box()["y"] < page.locator(".slime-lab__controls").bounding_box()["y"]  # type: ignore[index]
    fold = reader.button("picture_fold")
    fold.click()
    expect(picture).to_be_hidden()
    reader.button("picture_open").click()
    expect(picture).to_be_visible()
    jump = reader.button("picture_jump")
    expect(jump).to_be_hidden()
    page.locator(".slime-lab__tabs").scroll_into_view_if_needed()
    page.mouse.wheel(0, 400)
    expect(jump).to_be_visible()
    jump.click()
    expect(picture).to_be_in_viewport()
    reader.button("a_save").click()
    agent = page.evaluate("SlimeLabData.catalog.presets[3].label[SlimeLabData.language]")
    page.get_by_role("button", name=agent).click()
    page.locator("[data-part=compare] summary").click()
    for key in ("share", "load"):
        reader.button(key).click()
        assert page.evaluate("document.documentElement.scrollWidth") == 320
    heights = page.evaluate(
        """[...document.querySelectorAll(".slime-lab :is(button, summary, .slime-lab__card, .slime-lab__input)")]
          .filter((el) => el.offsetParent)
          .map((el) => [el.getBoundingClientRect().height, el.outerHTML.slice(0, 120)])"""
    )
    assert [one for one in heights if one[0] < 44] == []


def test_print_and_reduced_motion(reader: Visit) -> None:
    """On paper: picture, findings, every file in full, no controls; with reduced motion nothing is animated."""
    page = reader.open()
    page.emulate_media(media="print")
    expect(page.locator(".slime-lab__bar")).to_be_hidden()
    expect(page.locator(".slime-lab__controls")).to_be_hidden()
    for name in ("experiment.sh", "experiment.json"):
        expect(page.locator(f'[data-file="{name}"] pre')).to_be_visible()
    expect(page.locator(".slime-lab__picture svg")).to_be_visible()
    page.emulate_media(media="screen", reduced_motion="reduce")
    reader.choose("model", "tiny")
    running = page.evaluate("document.getAnimations().filter((one) => one.effect.target.closest('.slime-lab')).length")
    assert running == 0


def test_pictures_follow_the_choices_and_a_round_is_played(reader: Visit) -> None:
    """One schedule and one way of serving are drawn; playing moves through the phases, changes nothing, and ends."""
    page = reader.open()
    page.clock.install()
    page.locator("[data-part=lessons] > summary").click()
    rounds = page.locator("[data-part=round]")
    before = reader.choices()
    for at in (0, 1):
        block = rounds.nth(at)
        expect(block.locator("svg:visible")).to_have_count(1)
        block.get_by_role("button", name=reader.word("round_play")).click()
        expect(block.locator("li[data-now]")).to_have_count(1)
        expect(block).to_have_attribute("data-phase", "0")
        page.clock.run_for(2_100)
        expect(block).to_have_attribute("data-phase", "1")
        page.clock.run_for(20_000)
        assert block.get_attribute("data-phase") is None
        expect(block.get_by_role("button", name=reader.word("round_play"))).to_be_visible()
    assert reader.choices() == before
    block.get_by_role("button", name=reader.word("round_play")).click()
    titles = []
    for field in ("speculative", "hicache"):
        reader.field(field).locator("input").check()
        titles.append(block.locator("svg:visible title").text_content())
        assert block.get_attribute("data-phase") is None, "an edit ends the playing"
    assert titles == [reader.word("serve_title", parts=parts) for parts in ("EAGLE", "HiCache + EAGLE")]
    reader.choose("correction", "icepop")
    expect(page.locator("[data-part=lessons]")).to_contain_text(
        reader.word("weight_icepop", low="0.5", high="2", q="0.1", p="0.4", ratio="4", weight="0")
    )


def test_a_round_under_reduced_motion(reader: Visit) -> None:
    """Nothing moves by itself: each press shows the next phase."""
    page = reader.open()
    page.clock.install()
    page.emulate_media(reduced_motion="reduce")
    page.locator("[data-part=lessons] > summary").click()
    block = page.locator("[data-part=round]").first
    button = block.get_by_role("button", name=reader.word("round_play"))
    for phase in ("0", "1", "2", None):
        button.click()
        page.clock.run_for(10_000)
        assert block.get_attribute("data-phase") == phase
