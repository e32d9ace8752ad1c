"""Links and files that somebody made in order to do harm: refused with the reason, or read without it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from .conftest import Visit

pytestmark = pytest.mark.browser

INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
BIDI = "\u202e\u2066\u200b\U000e0041"
POLLUTED = """() => ["nodes", "model", "polluted", "when"].filter((name) => name in {} || name in []
  || Object.keys(Object.prototype).length > 0)"""


def v0(value: Any) -> str:
    return "#experiment=" + quote(value if isinstance(value, str) else json.dumps(value))


LINKS = {
    "prototype": v0('{"__proto__": {"nodes": 2, "polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}'),
    "prototype among choices": v0('{"model": "tiny", "__proto__": {"polluted": 1}, "toString": 1}'),
    "names of objects": "#lab=1;constructor;__proto__=1;hasOwnProperty=2",
    "megabytes": "#lab=1;first;data=" + "x" * 2_000_000,
    "megabytes of an earlier page": v0('{"model": "' + "x" * 2_000_000 + '"}'),
    "deep": v0("[" * 50_000),
    "deep object": v0('{"a":' * 20_000 + "1" + "}" * 20_000),
    "wrong types": v0({"model": ["tiny"], "nodes": "2", "pd": "true", "rollout": None, "rounds": 1e308, "hf": {}}),
    "numbers": "#lab=1;first;nodes=0x10;rollout=1e3;rounds=-1;response=NaN;concurrency=9999999999999999999",
    "controls": "#lab=1;first;model=%00tiny;mambaRatio=%E2%80%AE0.9%0a;%E2%80%AEnodes=2",
    "markup": v0({"model": "<img src=x onerror=alert(1)>", "<script>alert(1)</script>": 1}),
    "address": "#lab=1;first;task=javascript:alert(1)",
    "many keys": v0({f"key{at}": at for at in range(300)}),
    "broken escape": "#lab=1;first;nodes=%E2%82",
}


@pytest.mark.parametrize("name", LINKS)
def test_a_hostile_link_does_no_harm(visit: Visit, name: str) -> None:
    """The page says what it left out, keeps the visitor's experiment, stays quiet, and goes on working."""
    visit.open()
    visit.choose("model", "glm-4-9b")
    mine = visit.choices()
    visit.page.on("dialog", lambda dialog: visit.problems.append(f"dialog: {dialog.message}"))
    visit.page.goto("about:blank")
    page = visit.open(fragment=LINKS[name])
    notices = page.locator('[data-notice="problem"], [data-notice="ignored"], [data-notice="visit"]')
    expect(notices.first).to_be_visible()
    assert visit.kept() == mine
    assert page.evaluate(POLLUTED) == []
    assert page.locator(".slime-lab img, .slime-lab__notices script").count() == 0
    shown = page.locator(".slime-lab").inner_text()
    assert INVISIBLE.search(shown) is None
    assert max(map(len, page.locator(".slime-lab__notice").all_inner_texts())) < 4000
    visit.choose("correction", "icepop")
    assert "--tis-clip-low 0.5" in visit.file()


TEXTS = {
    "prototype": ('{"model": "tiny", "__proto__": {"polluted": 1}}', "__proto__"),
    "constructor": (
        '{"schema": 2, "choices": {"model": "tiny", "constructor": {"prototype": {"polluted": 1}}}}',
        "constructor",
    ),
    "wrong types": ('{"model": "tiny", "nodes": [1], "pd": 1, "rounds": 3.5, "save": 5}', "nodes"),
    "deep choices": ('{"model": ' + "[" * 5000, "32"),
    "bidi": (json.dumps({"model": "tiny", "save": f"/data/{BIDI}run", f"a{BIDI}b": 1}), "save"),
    "lone surrogate": ('{"model": "tiny", "save": "/data/\\ud800"}', "save"),
    "markup": ('{"model": "tiny", "<img src=x onerror=alert(1)>": 1}', "<img"),
    "large": ('{"model": "tiny", "save": "' + "x" * 262_144 + '"}', "262144"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_json_does_no_harm(visit: Visit, name: str) -> None:
    """What cannot be used is named beside what was used; nothing invisible reaches the page or the shell."""
    text, said = TEXTS[name]
    page = visit.open()
    visit.page.on("dialog", lambda dialog: visit.problems.append(f"dialog: {dialog.message}"))
    visit.button("load").click()
    page.locator("#lab-json").fill(text)
    visit.button("load_now").click()
    told = page.locator('[data-notice="loaded"], #lab-load [role=alert]:visible')
    expect(told.first).to_contain_text(said)
    assert page.evaluate(POLLUTED) == []
    assert page.locator(".slime-lab img").count() == 0
    for file in ("experiment.sh", "experiment.json"):
        assert INVISIBLE.search(visit.file(file)) is None
    assert INVISIBLE.search(page.locator(".slime-lab").inner_text()) is None
    if name == "bidi":
        assert visit.choices()["save"] == "/data/run"


def test_typed_texts_lose_what_cannot_be_seen(visit: Visit) -> None:
    """A path pasted with direction marks is cleaned when it is committed, and stands so in the box and the shell."""
    visit.open()
    visit.type("save", f"/data/{BIDI}run")
    assert visit.choices()["save"] == "/data/run"
    expect(visit.field("save").locator("input")).to_have_value("/data/run")
