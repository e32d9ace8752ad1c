"""Links: what they hold, what opening one does to the visitor's own experiment, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser


def link_of(reader: Visit) -> str:
    """The link that the page offers."""
    reader.button("share").click()
    return str(reader.page.locator("#lab-share input[type=text]").input_value())


def test_a_link_holds_no_path_address_or_hook(reader: Visit) -> None:
    """Differences alone travel; private choices stay and are named; copying works where the clipboard is closed."""
    page = reader.open()
    reader.choose("layout", "external")
    reader.type("endpoints", "10.1.2.3:30000")
    reader.type("data", "/secret/place.jsonl")
    link = link_of(reader)
    fragment = link.split("#")[1]
    assert fragment == "lab=1;first;layout=external;transport=disk"
    expect(page.locator("#lab-share")).to_contain_text(
        page.locator('[data-field="endpoints"] label').inner_text().removesuffix(" ▲")
    )
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    reader.page.locator("#lab-share").get_by_role("button", name=reader.word("copy")).click()
    assert page.evaluate("window.copied") == link
    expect(page.locator("#lab-share")).to_contain_text(reader.word("copied", name=reader.word("link")))


def test_opening_a_link_keeps_the_own_experiment(reader: Visit) -> None:
    """A link is a preview with its differences; edits stay in the address; only a click replaces, and undo returns."""
    page = reader.open()
    reader.choose("model", "tiny")
    mine = reader.choices()
    page.goto("about:blank")
    reader.open(fragment="#lab=1;first;model=glm-4-9b")
    assert reader.choices()["model"] == "glm-4-9b"
    notice = page.locator('[data-notice="visit"]')
    expect(notice).to_contain_text("Tiny")
    reader.type("nodes", 2)
    assert (reader.kept() or {})["model"] == "tiny"
    assert "nodes=2" in page.url
    page.reload()
    assert (reader.choices()["model"], reader.choices()["nodes"]) == ("glm-4-9b", 2)
    reader.button("visit_leave").click()
    assert reader.choices() == mine
    assert "lab=" not in page.url
    page.go_back()
    expect(notice).to_be_visible()
    reader.button("visit_keep").click()
    expect(notice).to_have_count(0)
    assert (reader.kept() or {})["model"] == "glm-4-9b"
    assert "lab=" not in page.url
    reader.button("undo").click()
    assert reader.choices() == mine
    page.reload()
    assert reader.choices() == mine


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("#lab=99;first", "99"),
        ("#lab=1;first;nodes=%ff", "percent-encoding"),
        ("#experiment=%7B", "JSON"),
        ("#lab=1;" + "x" * 20_000, "8192"),
    ],
)
def test_a_broken_link_is_explained(visit: Visit, fragment: str, said: str) -> None:
    """A link that cannot be read is refused with its reason, and the kept experiment is shown."""
    visit.open()
    visit.choose("model", "tiny")
    visit.page.goto("about:blank")
    page = visit.open(fragment=fragment)
    expect(page.locator('[data-notice="problem"]')).to_contain_text(said)
    assert visit.choices()["model"] == "tiny"


def test_unusable_values_of_a_link_are_listed(reader: Visit) -> None:
    """Private, unknown and misspelt parts are named and left out; nothing of them is run as markup."""
    page = reader.open(fragment="#lab=1;first;hf=%2Fetc;nodez=3;nodes=0;<img src=x onerror=alert(1)>=1;model=tiny")
    notice = page.locator('[data-notice="ignored"]')
    for text in ("hf", "nodez", "nodes", "<img"):
        expect(notice).to_contain_text(text)
    assert page.locator(".slime-lab img").count() == 0
    assert reader.choices()["model"] == "tiny"
    notice.get_by_role("button").click()
    expect(notice).to_have_count(0)
    reader.choose("model", "glm-4-9b")
    expect(notice).to_have_count(0)


def test_links_of_the_earlier_page_open(reader: Visit) -> None:
    """All choices as JSON, as pages wrote them before links had a version; a schema-0 fragment opens the same."""
    text = json.dumps({"model": "dense", "step": 3, "layout": "separate", "rollout": 4})
    reader.page.goto("about:blank")
    reader.open()
    reader.page.evaluate("(text) => { location.hash = 'experiment=' + encodeURIComponent(text); }", text)
    expect(reader.page.locator('[data-field="model"] input:checked')).to_have_value("glm-4-9b")
    assert (reader.choices()["layout"], reader.choices()["rollout"]) == ("separate", 4)
