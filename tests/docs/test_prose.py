"""The two trees of prose: the same pages, the same anchors, numbers by role, and Chinese that is set as Chinese."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS / "en") for path in (DOCS / "en").rglob("*.md"))
CHINESE = [*sorted((DOCS / "zh").rglob("*.md")), ROOT / "README_zh.md"]
HAN = "\u3400-\u9fff"


def _lines(path: Path) -> list[str]:
    """The lines outside fences of code and diagrams, with inline code as one letter, and no link targets."""
    kept, fenced = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            line = re.sub(r"\{ref\}`([^<`]*) <[^`]*`", r"\1", line)
            line = re.sub(r"(?:\{[a-z:]+\})?`[^`]*`", "x", line)
            line = re.sub(r"\{#[^}]*\}|\]\([^)]*\)|\[", "", line)
            kept.append(line.replace("**", ""))
    return kept


def _anchors(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^\(([a-z0-9-]+)\)=$|\{#([a-z0-9-]+)\}|^:name: (\S+)$", text, flags=re.MULTILINE)


def test_both_languages_have_the_same_pages() -> None:
    assert sorted(path.relative_to(DOCS / "zh") for path in (DOCS / "zh").rglob("*.md")) == PAGES


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_both_languages_have_the_same_anchors_roles_and_directives(page: Path) -> None:
    english, chinese = DOCS / "en" / page, DOCS / "zh" / page
    assert _anchors(english) == _anchors(chinese)
    for pattern in (r"\{(slime:\w+\}`[^`]*)`", r"^(?:```|:::+)(\{.*)$"):
        texts = [re.sub(r"_zh(?=\.md)", "", path.read_text(encoding="utf-8")) for path in (english, chinese)]
        found = [re.findall(pattern, text, re.MULTILINE) for text in texts]
        # Each language puts the facts of a sentence in its own order, and its own titles on cards.
        without_titles = [sorted(re.sub(r"(grid-item-card\}).*", r"\1", one) for one in each) for each in found]
        assert without_titles[0] == without_titles[1]


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: str(path.relative_to(ROOT)))
def test_chinese_is_set_as_chinese(path: Path) -> None:
    for line in _lines(path):
        assert not re.search(rf"[{HAN}][A-Za-z0-9]|[A-Za-z0-9][{HAN}]", line), f"a space is missing: {line}"
        assert not re.search(rf"[{HAN}][,;:!?()]|[,;!?()][{HAN}]", line), f"half-width punctuation: {line}"
        assert not re.search(rf"[{HAN}] [{HAN}，。；：！？、（）「」]", line), f"a space between Chinese words: {line}"


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_chinese_paragraph_stands_on_one_line(path: Path) -> None:
    """A line break inside a paragraph would show as a space between two words."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for before, after in pairwise(lines):
        assert not (re.match(rf"[{HAN}]", after) and re.search(rf"[{HAN}，。；：、]$", before)), after


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_are_the_same_in_both_languages(page: Path) -> None:
    """What is typed is the same; only comments are in the language of the page."""
    blocks = []
    for language in ("en", "zh"):
        text = (DOCS / language / page).read_text(encoding="utf-8")
        code = re.findall(r"^```(?:bash|yaml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        blocks.append([re.sub(r" +# .*", "", block) for block in code])
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_both_languages_have_the_same_formulas(page: Path) -> None:
    """Displayed formulas to the letter, and as many in the lines."""
    displayed, inline = [], []
    for language in ("en", "zh"):
        text = re.sub(r"(?ms)^```.*?^```", "", (DOCS / language / page).read_text(encoding="utf-8"))
        displayed.append(re.findall(r"(?ms)^\$\$\n(.*?)^\$\$", text))
        rest = re.sub(r"`[^`]*`", "", re.sub(r"(?ms)^\$\$\n.*?^\$\$", "", text))
        inline.append(sorted(re.findall(r"\$([^$\n]+)\$", rest)))
    assert displayed[0] == displayed[1]
    assert inline[0] == inline[1]
