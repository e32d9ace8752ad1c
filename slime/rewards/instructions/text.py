"""Words, sentences, lines and paragraphs, as the instructions count them."""

from __future__ import annotations

import re
import string

WORD = re.compile(r"\w+")
TOKEN = re.compile(r"\w+(?:['’]\w+)?|[^\w\s]")
EDGES = string.punctuation + string.whitespace + "“”‘’"
"""What may surround a word without being part of it."""
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# A sentence ends at its mark (with what closes after it) before a space; not after a title, an initial or "e.g.".
SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s)")
ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|No|Inc|Ltd|Co|Fig|approx)|\b[A-Z]|\b[a-z]\.[a-z])\.$"
)


def words(text: str) -> list[str]:
    """Runs of letters, digits and underscores."""
    return WORD.findall(text)


def bare_words(text: str) -> list[str]:
    """Words between spaces, in lower case, without any punctuation; those of punctuation alone are left out."""
    return text.lower().translate(NO_PUNCTUATION).split()


def tokens(text: str) -> list[str]:
    """Words (``don't`` is one) and single punctuation marks."""
    return TOKEN.findall(text)


def trimmed_words(text: str) -> list[str]:
    """Words between spaces, in lower case, without punctuation at their ends."""
    return [word for raw in text.lower().split() if (word := raw.strip(string.punctuation))]


def sentences(text: str) -> list[str]:
    """Sentences without the spaces around them. A line break is a space; text without an end mark is a sentence."""
    found: list[str] = []
    start = 0
    for mark in SENTENCE_END.finditer(text):
        if mark[0] == "." and ABBREVIATION.search(text[max(start, mark.start() - 12) : mark.end()]):
            continue
        found.append(text[start : mark.end()].strip())
        start = mark.end()
    return [sentence for sentence in [*found, text[start:].strip()] if sentence]


def lines(text: str) -> list[str]:
    """Lines that are not blank, with their indentation."""
    return [line for line in text.split("\n") if line.strip()]


def occurrences(phrase: str, text: str) -> int:
    """How often a word or phrase stands in a text as a whole, whatever its case."""
    return len(re.findall(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE))
