"""The reference page of the rules: every rule once, with its reason and its example, in both languages."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from slime.config.preflight import RULES
from slime.config.preflight.registry import load_examples
from sphinx_slime_lab.testing import site_builder

ROOTS = Path(__file__).parent / "roots"


@pytest.mark.parametrize(("builder", "language"), [("en", "en"), ("zh_CN", "zh")])
def test_every_rule_is_on_the_page(tmp_path: Path, builder: str, language: str) -> None:
    with site_builder(tmp_path, ROOTS) as build:
        page = build("preflight", language=builder).text("index.html")
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    examples = load_examples()
    for rule in RULES:
        assert page.count(f'id="preflight-{rule.id}"') == 1, rule.id
        assert rule.title[language] in text
        assert rule.why[language] in text
        for reason in (rule.prevented, rule.absent):
            assert reason is None or reason[language] in text
        if rule.id in examples:
            assert " ".join(examples[rule.id]["message"].split()) in " ".join(text.split()), rule.id
        for name, address in rule.threads:
            assert f'href="{address}">{name}</a>' in page


def test_every_thread_is_known() -> None:
    """A thread is written ``project#number`` with a project whose repository is known, so that it becomes a link."""
    for rule in RULES:
        words = [one.strip() for one in rule.source.split(",") if one.strip()]
        assert [name for name, _ in rule.threads] == words, rule.id
