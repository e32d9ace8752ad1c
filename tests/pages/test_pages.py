"""Every main page, over http and from disk, in both languages and themes, at three widths."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

PAGES = (
    "index.html",
    "get_started/tutorial.html",
    "recipes/glm-5.3.html",
    "recipes/tiny.html",
    "reference/rules.html",
    "reference/choices.html",
    "reference/data.html",
)
WIDTHS = (1440, 390, 320)
pytestmark = [pytest.mark.browser, pytest.mark.slow]

OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


def watched(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """A tab and the list of what it complains of or fetches from elsewhere."""
    page, problems = context.new_page(), []
    own = (address, "data:", "blob:")
    page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda one: None if one.url.startswith(own) else problems.append(f"request: {one.url}"))
    return page, problems


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_pages_are_quiet_and_fit(
    context: Callable[..., BrowserContext], address: str, language: str, scheme: str
) -> None:
    """No error, no foreign request, and nothing wider than the window, with every part opened."""
    page, problems = watched(context(color_scheme=scheme), address)
    for name in PAGES:
        page.goto(f"{address}/{language}/{name}")
        page.evaluate(OPEN_ALL)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} at {width}"
    assert problems == []


def test_builds_are_reproducible(documentation: Path, build: Callable[[Path, Path, str], Path], tmp_path: Path) -> None:
    """Four jobs, from and into other folders, give the bytes of one job; Sphinx's own bookkeeping aside."""
    again = build(tmp_path / "another" / "source", tmp_path / "elsewhere", "4")
    left, right = digests(documentation), digests(again)
    assert set(left) == set(right) and len(left) > 100
    assert [name for name in left if left[name] != right[name]] == []


def digests(folder: Path) -> dict[str, str]:
    """The hash of every file that readers get."""
    files = [path for path in folder.rglob("*") if path.is_file() and ".doctrees" not in path.parts]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name != ".buildinfo"
    }


def test_the_language_link_keeps_the_place(context: Callable[..., BrowserContext], address: str) -> None:
    """A heading, whose id differs by language, leads to the same heading; a shared experiment travels along."""
    page, problems = watched(context(), address)
    page.goto(f"{address}/en/get_started/tutorial.html#the-loop-that-you-are-building")
    page.locator("a.slime-language").click()
    page.wait_for_url("**/zh/get_started/tutorial.html#tutorial-loop")
    assert page.locator("#tutorial-loop").count() == 1
    page.goto(f"{address}/zh/index.html#lab=1;laptop")
    page.locator("a.slime-language").click()
    page.wait_for_url("**/en/index.html#lab=1;laptop")
    assert page.locator('[data-field="model"] input:checked').get_attribute("value") == "tiny"
    assert problems == []
