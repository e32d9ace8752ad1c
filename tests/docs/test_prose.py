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


# One spelling for each term: what is looked for outside of code, and what stands there instead.
SPELLINGS = {
    "en": {
        r"\b(?:de|re|un)?(?:quant|util|synchron|normal|initial|parallel|custom|serial|summar|minim|maxim|organ|real|recogn)"
        r"iz(?:e|es|ed|er|ing|ation|ations)\b": "the same with s",
        r"\b(?:behavior|color|neighbor|favor)s?\b": "behaviour, colour, neighbour, favour",
        r"\b(?:log probabilit\w+|logprobs?)\b": "log-probability, log-prob",
        r"\b(?:roll-?outs? out|roll-out|check point)s?\b": "rollout, checkpoint",
        r"\bspeculative sampling\b": "speculative decoding",
    },
    "zh": {
        "检查点": "checkpoint",
        "词元": "token",
        "(?:投机|推测)解码": "投机采样",
        "推理端": "采样端",
        "训推不一致": "训推差异",
        "完全异步": "全异步",
        "空泡": "气泡",
        "日志概率": "对数概率",
        "(?i)(?<![A-Za-z])tokenizer": "分词器",
        "(?i)chat template": "对话模板",
        "(?<![A-Za-z])hook(?![A-Za-z])": "钩子",
        "(?<![A-Za-z])mask(?![A-Za-z])": "掩码",
        "判决": "判定",
    },
}


@pytest.mark.parametrize("language", SPELLINGS)
def test_a_term_has_one_spelling(language: str) -> None:
    found = [
        f"{path.relative_to(DOCS)}: {match[0]!r}, write {right}"
        for path in sorted((DOCS / language).rglob("*.md"))
        for line in _lines(path)
        if not re.fullmatch(r"\([\w-]+\)=", line)
        for wrong, right in SPELLINGS[language].items()
        for match in re.finditer(wrong, line)
    ]
    assert not found


@pytest.mark.parametrize(("language", "column"), [("en", 0), ("zh", 1)])
def test_every_term_of_the_glossary_is_used(language: str, column: int) -> None:
    """On a page of its language; what stands between brackets is an abbreviation or another word for it."""
    rows = re.findall(r"^\| (\[.*?)\s\| (.*?)\s\|", (DOCS / language / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 25
    cells = [row[column] for row in rows]
    terms = [term for cell in cells for term in re.findall(r"\[([^]]+)\]\{#", cell) or re.split("[、，]", cell)]
    text = "\n".join(
        path.read_text("utf-8").lower() for path in (DOCS / language).rglob("*.md") if path.name != "glossary.md"
    )
    stems = {term: re.sub(r"y?$", "", re.sub(r"\s*[（(].*", "", term).strip().lower()) for term in terms}
    unused = [term for term, stem in stems.items() if stem not in text and stem != "—"]
    assert not unused
