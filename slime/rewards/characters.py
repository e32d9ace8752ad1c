"""Characters: look-alikes of ASCII become ASCII, printed fractions and powers become LaTeX, invisible ones are named.

No Unicode normalisation form does this: NFKC turns ``x²`` into ``x2`` and ``1½`` into ``11/2``.
"""

from __future__ import annotations

import re
import unicodedata

FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
SUBSCRIPTS = {ord(character): f"_{number}" for number, character in enumerate("₀₁₂₃₄₅₆₇₈₉")}
FRACTIONS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5), "⅘": (4, 5),
    "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8),
}  # fmt: skip
SIGNS = {
    "−": "-", "–": "-", "‐": "-", "‑": "-", "⁄": "/", "∕": "/", "÷": "/", "×": r"\times ", "·": r"\cdot ",
    "⋅": r"\cdot ", "∙": r"\cdot ", "π": r"\pi ",
    "∞": r"\infty ", "√": r"\sqrt", "°": r"\degree ", "≤": r"\leq ", "≥": r"\geq ",
    "≠": r"\neq ", "±": r"\pm ", "∪": r"\cup ", "∈": r"\in ", "∅": r"\emptyset ", "θ": r"\theta ", "α": r"\alpha ",
    "β": r"\beta ", "′": "'", "’": "'", "“": '"', "”": '"', "、": ",", "。": ".", "\u00a0": " ", "\u2009": " ",
    "\u202f": " ", "\u3000": " ", "\ufeff": "", "\u200b": "",
}  # fmt: skip
TABLE: dict[int, int | str] = {
    **FULL_WIDTH,
    **SUBSCRIPTS,
    **{ord(character): sign for character, sign in SIGNS.items()},
    **{ord(character): rf"\frac{{{top}}}{{{bottom}}}" for character, (top, bottom) in FRACTIONS.items()},
}
# Cc: control; Cf: formatting, among them the marks that turn the direction of writing; Co, Cs: private, surrogates.
INVISIBLE = ("Cc", "Cf", "Co", "Cs")


def plain(text: str) -> str:
    """`text` with one spelling for each character that mathematics prints in several ways."""
    if text.isascii():
        return text
    raised = RAISED.sub(lambda found: f"^{{{found[0].translate(SUPERSCRIPTS)}}}", text)
    return raised.translate(TABLE)


def unprintable(text: str) -> str | None:
    """The first character that nobody sees, e.g. ``U+202E``; None if all are visible. Ordinary spaces are fine.

    A mark that reverses the order of digits shows 24 where 42 is written, so such an answer is not read at all.
    """
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if character not in "\t\n\r\u200b\ufeff" and unicodedata.category(character) in INVISIBLE:
            return f"U+{ord(character):04X}"
    return None
