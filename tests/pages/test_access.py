"""Accessibility by axe-core, a strict policy, no JavaScript, and paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = (
    "index.html",
    "get_started/tutorial.html",
    "recipes/glm-5.3.html",
    "reference/rules.html",
    "reference/data.html",
)
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
OURS = ".slime-lab, .slime-reference, .slime-figure, .slime-language, .slime-math, .slime-fact"
RUN_AXE = """async ([selector, rules]) => {
  const found = await axe.run(selector, { runOnly: rules, resultTypes: ["violations"] });
  return found.violations.flatMap((rule) => rule.nodes
    .map((node) => `${rule.id}: ${node.html.slice(0, 160)} | ${node.failureSummary.slice(0, 300)}`));
}"""
RULES = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    # The other scheme has the same elements in other colours.
    "dark": {"type": "rule", "values": ["color-contrast"]},
}
WATCH_POLICY = """window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  const element = event.target instanceof Element ? event.target : null;
  const ours = element ? Boolean(element.closest(SELECTOR)) : /slime-/.test(event.sourceFile);
  const at = (element ? element.outerHTML : event.sourceFile).slice(0, 120);
  window.violations.push({ ours, directive: event.effectiveDirective, at });
});"""


def ready(page: Page, address: str) -> None:
    """Open a page with all its parts, without the motion that axe would catch half-way."""
    page.goto(address)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(OPEN_ALL)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_axe_finds_nothing(
    context: Callable[..., BrowserContext], documentation: Path, axe: str, language: str, scheme: str
) -> None:
    """WCAG A and AA on the whole of the main pages, wide and narrow, and on each step of the lab."""
    page = context(color_scheme=scheme).new_page()
    found: list[str] = []
    for name in PAGES:
        ready(page, f"{documentation.as_uri()}/{language}/{name}")
        page.evaluate(axe)
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            found += [f"{name} at {width}: {one}" for one in page.evaluate(RUN_AXE, ["html", RULES[scheme]])]
    page.set_viewport_size({"width": 1440, "height": 900})
    ready(page, f"{documentation.as_uri()}/{language}/index.html")
    page.evaluate(axe)
    for step in page.locator(".slime-lab__step").all():
        step.click()
        found += [
            f"step {step.inner_text()}: {one}"
            for one in page.evaluate(RUN_AXE, [".slime-lab__controls", RULES[scheme]])
        ]
    assert found == []


def test_strict_policy_stops_nothing_of_ours(context: Callable[..., BrowserContext], strict_address: str) -> None:
    """Scripts and styles of the lab run under the policy; what is refused belongs to the theme."""
    page = context().new_page()
    page.add_init_script(WATCH_POLICY.replace("SELECTOR", repr(OURS)))
    violations: list[dict[str, Any]] = []
    for name in PAGES:
        page.goto(f"{strict_address}/en/{name}")
        violations += page.evaluate("window.violations")
    page.goto(f"{strict_address}/en/index.html")
    page.locator(".slime-lab--ready").wait_for()
    page.locator('[data-field="model"] label', has_text="Tiny").click()
    expect(page.locator('[data-file="experiment.sh"] pre')).to_contain_text("--recipe tiny")
    with page.expect_download():
        page.locator('[data-file="experiment.sh"] [data-action="download"]').click()
    page.locator("[data-part=tour] > summary").click()
    page.get_by_role("button", name="4. GRPO").click()
    violations += page.evaluate("window.violations")
    assert [one for one in violations if one["ours"]] == []
    # Inline scripts are the theme's; Mermaid's own extension writes its SVG as an object.
    assert {one["directive"] for one in violations} <= {"script-src-elem", "object-src"}, violations


def test_entry_page_obeys_the_policy(context: Callable[..., BrowserContext], strict_address: str) -> None:
    """The page that leads to a language has no inline script, and still leads there."""
    page = context(locale="zh-CN").new_page()
    page.goto(f"{strict_address}/index.html")
    page.wait_for_url("**/zh/index.html")


@pytest.mark.parametrize("language", ["zh", "en"])
def test_without_javascript(context: Callable[..., BrowserContext], documentation: Path, language: str) -> None:
    """Pictures, tour, provenance, shell and links are there; no button that would do nothing."""
    page = context(java_script_enabled=False).new_page()
    page.goto(f"{documentation.as_uri()}/{language}/index.html")
    expect(page.locator(".slime-lab__picture svg")).to_be_visible()
    for part in ("tour", "provenance"):
        page.locator(f"[data-part={part}] > summary").click()
    for stage in page.locator("[data-part=tour-stage]").all():
        expect(stage.locator("svg")).to_be_visible()
    expect(page.locator(".slime-lab__table--answers tbody tr")).to_have_count(8)
    expect(page.locator("table.slime-lab__table--sources")).to_be_visible()
    for button in page.locator(".slime-lab button").all():
        expect(button).to_be_hidden()
    for link in page.locator(".slime-lab a[download], .slime-lab a[type='application/json']").all():
        assert (documentation / language / str(link.get_attribute("href"))).is_file()


def test_print_shows_everything_but_controls(context: Callable[..., BrowserContext], documentation: Path) -> None:
    """On paper each part is open, each stage of the tour is there, and nothing that can only be pressed."""
    page = context().new_page()
    page.goto(f"{documentation.as_uri()}/en/index.html")
    page.locator(".slime-lab--ready").wait_for()
    page.emulate_media(media="print")
    for stage in page.locator("[data-part=tour-stage]").all():
        expect(stage).to_be_visible()
    hidden = page.evaluate(
        "[...document.querySelectorAll('.slime-lab details:not([hidden]) > :is(.table-wrapper, p)')]"
        ".filter((one) => !one.checkVisibility()).map((one) => one.parentElement.dataset.part)"
    )
    assert hidden == []
    for button in page.locator(".slime-lab button").all():
        expect(button).to_be_hidden()
    expect(page.locator('[data-file="experiment.json"] pre')).to_be_visible()
    assert page.pdf()[:5] == b"%PDF-"
