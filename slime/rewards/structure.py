"""The outer shape of an answer, read from canonical text: number, list, tuple, matrix, equation, words, expression.

Only leaves (expressions) ever reach an algebra system. Brackets are compared as such, so ``(1,2)`` is not ``[1,2]``.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from slime.rewards.canonical import key
from slime.rewards.exact import GROUPED, read_number
from slime.rewards.units import split_unit

MATRIX = re.compile(r"\\begin\{([pbvBV]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
NAME = r"(?:\\angle )?\s*(?:\\[A-Za-z]+|[A-Za-z]{1,4})(?:_(?:\w|\{\w+\}))?(?:\([A-Za-z](?:,[A-Za-z])*\))?"
ASSIGNMENT = re.compile(rf"\s*({NAME})\s*=(?![=])(.*)", re.DOTALL)
MEMBERSHIP = re.compile(rf"\s*{NAME}\s*\\in(?![a-zA-Z])(.*)", re.DOTALL)
WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*[A-Za-z]\.?")
COMPARISON = re.compile(r"(<=|>=|<|>|\\(?:leq|geq|lt|gt)(?![a-zA-Z]))")
APPROXIMATELY = re.compile(r"\\approx(?![a-zA-Z])")
UNKNOWN = re.compile(r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\w|\{\w+\}))?(?:\([A-Za-z]\))?")
CONSTANTS = re.compile(r"\\(?:frac|sqrt|pi|infty|cdot)(?![a-zA-Z])|(?<![a-zA-Z])e(?![a-zA-Z])")
LETTER = re.compile(r"[A-Za-z,;]")
SHORT_PRODUCT = 3  # "xy" may be a product, "smile" is a word
SHORT_WORDS = ("yes", "no")
OPENERS = {"(": ")", "[": "]", "{": "}"}
SEPARATOR = re.compile(r"\\text\s*\{\s*(?:,?\s*(?:and|or))\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|[,;]")

Shape = Literal["number", "expression", "text", "list", "tuple", "set", "union", "matrix", "equation"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        shape: what it is. "list" is values without brackets (in any order), "tuple" keeps order and brackets.
        text: canonical text of it, without its unit.
        number: exact value of a number.
        parts: elements of a collection, the rows' entries of a matrix, both sides of an equation.
        brackets: opening and closing bracket of a tuple or interval; the shape of a matrix.
        unit: name of the unit, "" if none.
        name: left side of an assignment such as ``x = 5``, or what an inequality bounds; "" if none.
    """

    shape: Shape
    text: str
    number: Fraction | None = None
    parts: tuple[Answer, ...] = ()
    brackets: str = ""
    unit: str = ""
    name: str = ""


def read_answer(text: str, as_list: bool = False) -> Answer:
    """Shape of canonical `text`; `as_list` reads ``1,234`` as two numbers, not as one with a thousands separator."""
    text = text.strip()
    if found := MEMBERSHIP.fullmatch(text):
        return read_answer(found[1], as_list)
    if not (as_list and GROUPED.fullmatch(text)) and (number := read_number(text)) is not None:
        return Answer("number", text, number=number)
    quantity = split_unit(text)
    if quantity.rest != text and (number := read_number(quantity.rest)) is not None:
        return Answer("number", quantity.rest, number=number * quantity.factor, unit=quantity.unit)
    for reader in (
        _reals,
        _approximation,
        _inequality,
        _words,
        _matrix,
        _list,
        _collection,
        _sum_or_difference,
        _equation,
    ):
        if (answer := reader(text, as_list)) is not None:
            return answer
    if quantity.unit and quantity.factor == 1:
        return dataclasses.replace(read_answer(quantity.rest, as_list), unit=quantity.unit)
    return Answer("expression", text)


def _reals(text: str, as_list: bool) -> Answer | None:
    if not re.fullmatch(r"\\mathbb\s*(?:\{\s*R\s*\}|R)|\\R", text):
        return None
    return _interval("", text, "(", r"-\infty", r"\infty", ")")


def _approximation(text: str, as_list: bool) -> Answer | None:
    r"""``x = \frac{1}{3} \approx 0.33`` states 1/3, and ``x \approx 5`` states 5."""
    sides = [side.strip() for side in APPROXIMATELY.split(text)]
    if len(sides) != 2 or not sides[1]:
        return None
    if UNKNOWN.fullmatch(sides[0]):
        return read_answer(f"{sides[0]} = {sides[1]}", as_list)
    return read_answer(sides[0], as_list)


def _inequality(text: str, as_list: bool) -> Answer | None:
    r"""``x > 3``, ``3 < x`` and ``1 \leq x < 2`` are intervals with a name, if their ends are constants."""
    pieces = COMPARISON.split(text)
    signs, sides = pieces[1::2], [piece.strip() for piece in pieces[::2]]
    if not all(sides):
        return None
    if len(sides) == 3 and _falls(signs[0]) == _falls(signs[1]):
        if _falls(signs[0]):
            sides, signs = sides[::-1], signs[::-1]
        low, name, high = sides
        if UNKNOWN.fullmatch(name) and _constant(low) and _constant(high):
            return _interval(name, text, "[("[_open(signs[0])], low, high, "])"[_open(signs[1])])
    if len(sides) == 2:
        falls = _falls(signs[0])
        if not UNKNOWN.fullmatch(sides[0]):
            sides, falls = sides[::-1], not falls
        name, end = sides
        if UNKNOWN.fullmatch(name) and _constant(end):
            is_open = _open(signs[0])
            if falls:
                return _interval(name, text, "[("[is_open], end, r"\infty", ")")
            return _interval(name, text, "(", r"-\infty", end, "])"[is_open])
    return None


def _interval(name: str, text: str, left: str, low: str, high: str, right: str) -> Answer:
    return Answer("tuple", text, parts=(read_answer(low), read_answer(high)), brackets=left + right, name=key(name))


def _falls(sign: str) -> bool:
    return sign.startswith((">", r"\g"))


def _open(sign: str) -> bool:
    return sign in ("<", ">", r"\lt", r"\gt")


def _constant(text: str) -> bool:
    return bool(text) and not LETTER.search(CONSTANTS.sub("", text))


def _words(text: str, as_list: bool) -> Answer | None:
    wrapped = re.fullmatch(r"\\text\s*\{([^{}]*)\}", text)
    plain = wrapped[1].strip() if wrapped else text
    if not wrapped and SEPARATOR.search(plain):
        return None
    if wrapped and (number := read_number(plain)) is not None:
        return Answer("number", plain, number=number)
    bare = plain.strip("() .") if wrapped else plain
    if wrapped or (WORDS.fullmatch(plain) and (len(plain) > SHORT_PRODUCT or plain.lower() in SHORT_WORDS)):
        return Answer("expression" if re.fullmatch(r"[A-Za-z]", bare) else "text", bare)
    return None


def _matrix(text: str, as_list: bool) -> Answer | None:
    found = MATRIX.fullmatch(text)
    if not found:
        return None
    rows = [row.split("&") for row in re.split(r"\\\\", found[2]) if row.strip()]
    parts = tuple(read_answer(entry) for row in rows for entry in row)
    return Answer("matrix", text, parts=parts, brackets="x".join(str(len(row)) for row in rows))


def _list(text: str, as_list: bool) -> Answer | None:
    pieces = _split(text, SEPARATOR)
    if len(pieces) < 2:
        return None
    return Answer("list", text, parts=tuple(read_answer(piece) for piece in pieces))


def _collection(text: str, as_list: bool) -> Answer | None:
    if len(unions := _split(text, re.compile(r"\\cup(?![a-zA-Z])"))) > 1:
        return Answer("union", text, parts=tuple(read_answer(piece) for piece in unions))
    if text.startswith(r"\{") and text.endswith(r"\}"):
        inside = text[2:-2].strip()
        pieces = _split(inside, SEPARATOR) if inside else []
        return Answer("set", text, parts=tuple(read_answer(piece) for piece in pieces))
    if len(text) < 2 or text[0] not in OPENERS or text[-1] not in ")]}" or not _encloses(text):
        return None
    pieces = _split(text[1:-1], SEPARATOR)
    brackets = text[0] + text[-1]
    if brackets == "{}" or (len(pieces) < 2 and brackets == "()"):
        return read_answer(text[1:-1], as_list)
    return Answer("tuple", text, parts=tuple(read_answer(piece) for piece in pieces), brackets=brackets)


def _sum_or_difference(text: str, as_list: bool) -> Answer | None:
    r"""``1 \pm x`` is the list of ``1 + x`` and ``1 - x``."""
    if not re.search(r"\\pm(?![a-zA-Z])", text):
        return None
    variants = [re.sub(r"\\pm(?![a-zA-Z])\s*", sign, text).strip() for sign in ("+", "-")]
    return Answer("list", text, parts=tuple(read_answer(variant.removeprefix("+")) for variant in variants))


def _equation(text: str, as_list: bool) -> Answer | None:
    sides = _split(text, re.compile(r"(?<![<>!=:])=(?!=)"))
    if len(sides) < 2:
        return None
    if found := ASSIGNMENT.fullmatch(text):
        # x = 2 + 3 = 5 states the last value.
        value = read_answer(sides[-1], as_list)
        whole = (Answer("expression", found[1].strip()), value)
        return Answer("equation", text, parts=whole, name=key(found[1]))
    if len(sides) > 2:
        return None
    return Answer("equation", text, parts=(read_answer(sides[0]), read_answer(sides[1])))


def _encloses(text: str) -> bool:
    """Whether the first bracket closes at the very end: true of ``(1,2]``, false of ``(1)(2)``."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return position == len(text) - 1
    return False


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Pieces between separators at bracket depth 0; a thousands separator inside a number is none."""
    pieces: list[str] = []
    depth = start = 0
    found = separator.search(text)
    position = 0
    while position < len(text):
        character = text[position]
        if found and position == found.start() and depth == 0:
            pieces.append(text[start:position])
            position = start = found.end()
            found = separator.search(text, position)
            continue
        depth += (character in "([{") - (character in ")]}")
        position += 1
        if found and found.start() < position:
            found = separator.search(text, position)
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()] if len(pieces) > 1 else [text]
