"""Links, descriptions and moved pages of the built site, as readers follow them."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from playwright.sync_api import BrowserContext, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_every_link_inside_leads_somewhere(documentation: Path) -> None:
    """Each relative address of each page is a file, and its anchor is an id there."""
    texts = {path: path.read_text(encoding="utf-8") for path in documentation.rglob("*.html")}
    ids = {path: set(re.findall(r'\s(?:id|name)="([^"]+)"', text)) for path, text in texts.items()}
    broken, checked = set(), 0
    for path, text in texts.items():
        for address in re.findall(r'<(?:a|link|img|script|object)\b[^>]*?\s(?:href|src|data)="([^"]*)"', text):
            parts = urlsplit(unescape(address))
            if parts.scheme or parts.netloc or parts.path.startswith("/"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            checked += 1
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in ids and place not in ids[target]):
                broken.add(f"{path.relative_to(documentation)}: {address}")
    assert checked > 10_000
    assert sorted(broken) == []


def test_every_page_says_what_it_is(documentation: Path) -> None:
    """A title, a language, and one description that is a sentence; search engines show them."""
    for language in ("en", "zh"):
        for path in sorted((documentation / language).rglob("*.html")):
            text = path.read_text(encoding="utf-8")
            if 'http-equiv="refresh"' in text:
                continue
            found = re.findall(r'<meta name="description" content="([^"]*)"', text)
            assert len(found) == 1 and 10 < len(unescape(found[0])) <= 163, path
            assert re.search(r"<title>[^<]+</title>", text) and f'<html class="no-js" lang="{language}' in text, path


def test_a_moved_page_keeps_the_place(
    context: Callable[..., BrowserContext], address: str, documentation: Path
) -> None:
    """The reader's own query and anchor go along; without any, the page leads to the anchor of the table."""
    page = context().new_page()
    page.goto(f"{address}/zh/advanced/straw.html")
    page.wait_for_url("**/zh/advanced/rollout_scheduling.html#advanced-rollout-scheduling-straw")
    expect(page.locator("#advanced-rollout-scheduling-straw")).to_have_count(1)
    page.goto(f"{address}/en/advanced/rl-systems.html?from=mail#advanced-rl-systems")
    page.wait_for_url(re.compile(r"/en/advanced/rl_systems\.html\?from=mail#advanced-rl-systems$"))
    table = yaml.safe_load((Path(__file__).resolve().parents[2] / "docs/redirects.yaml").read_text(encoding="utf-8"))
    for old in table:
        assert (documentation / "en" / f"{old}.html").is_file() and (documentation / "zh" / f"{old}.html").is_file()
