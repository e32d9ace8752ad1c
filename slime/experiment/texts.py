"""Sentences in both languages, with ``{name}`` slots, and the closest name to a wrong one.

Slots are filled by plain replacement in one pass: a value that contains ``{`` is never expanded again. The JavaScript
twin is ``sphinx_slime_lab/js/src/core/texts.js``; it gets the sentences of ``messages.py`` with the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slime.experiment.expression import Value
from slime.experiment.facts_schema import Words

_SLOT = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}", re.ASCII)
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
SHOWN_CHARACTERS = 64


@dataclass(frozen=True)
class Text:
    """One sentence in both languages."""

    zh: str
    en: str

    def get(self, language: str) -> str:
        """The sentence in ``zh`` or ``en``."""
        return self.zh if language == "zh" else self.en


def both(words: Words | Text) -> Text:
    """The sentence of a data file as a ``Text``."""
    return Text(words.zh, words.en)


def slots_of(template: str) -> list[str]:
    """The names of the ``{slots}`` in a sentence."""
    return _SLOT.findall(template)


def show(value: Value) -> str:
    """How a value appears inside a sentence."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(show(item) for item in value)
    return "null" if value is None else str(value)


def fill(template: Words | Text, slots: Mapping[str, Value | Text]) -> Text:
    """Put ``slots`` into a sentence; a slot without a value stays as written."""

    def one(sentence: str, language: str) -> str:
        def replace(match: re.Match[str]) -> str:
            if match.group(1) not in slots:
                return match.group(0)
            value = slots[match.group(1)]
            return value.get(language) if isinstance(value, Text) else show(value)

        return _SLOT.sub(replace, sentence)

    return Text(one(template.zh, "zh"), one(template.en, "en"))


def is_well_formed(text: str) -> bool:
    """False for a text with half a surrogate pair, which no file can hold."""
    return _SURROGATE.search(text) is None


def clean(text: str) -> str:
    """``text`` without control characters, line separators and what cannot be seen, and without outer spaces."""
    return _CONTROL.sub("", text).strip(" ")


def shorten(text: str) -> str:
    """A foreign text made safe to quote in a sentence: cleaned, well-formed and cut."""
    safe = clean(_SURROGATE.sub("\ufffd", text))
    return safe if len(safe) <= SHOWN_CHARACTERS else safe[:SHOWN_CHARACTERS] + "…"


def _lower_ascii(text: str) -> str:
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def edit_distance(left: str, right: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that turn ``left`` into ``right``."""
    before: list[int] = []
    above = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, above = above, row
    return above[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name`` (ASCII case aside), the first of equals, or None when none is close."""
    wanted = _lower_ascii(shorten(name))
    allowed = 1 if len(wanted) <= 3 else 2 if len(wanted) <= 7 else 3
    best: str | None = None
    for candidate in known:
        distance = edit_distance(wanted, _lower_ascii(candidate))
        if distance <= allowed:
            best, allowed = candidate, distance - 1
    return best
