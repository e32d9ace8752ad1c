"""The pages of flags show every group, once, in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slime.config import GROUP_TITLES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_group_has_its_heading_and_its_flags(language: str) -> None:
    text = "".join((DOCS / language / "reference" / name).read_text() for name in ("flags.md", "engine_flags.md"))
    assert re.findall(r"```\{slime:flags\} (\w+)\n```", text) == [
        *(group for group in GROUP_TITLES if group != "engine"),
        "engine",
    ]
    for group, title in GROUP_TITLES.items():
        assert group == "engine" or f"(flags-{group})=\n## {title[language]}\n" in text
