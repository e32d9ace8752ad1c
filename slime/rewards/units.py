r"""Trailing units (``5\text{ cm}``, ``45 \text{degree}``, ``5 days``, ``\$5``, ``50\%``): split off, compared."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
# Each unit with its spellings. A word in \text{} that is not here is a unit of its own ("apples").
SPELLINGS = {
    "degree": "degree degrees deg",
    "percent": "percent % \\%",
    "dollar": "dollar dollars usd $ \\$",
    "cent": "cent cents",
    "millimeter": "mm millimeter millimeters millimetre millimetres",
    "centimeter": "cm centimeter centimeters centimetre centimetres",
    "meter": "m meter meters metre metres",
    "kilometer": "km kilometer kilometers kilometre kilometres",
    "inch": "inch inches in",
    "foot": "foot feet ft",
    "yard": "yard yards yd",
    "mile": "mile miles mi",
    "gram": "g gram grams",
    "kilogram": "kg kilogram kilograms",
    "pound": "pound pounds lb lbs",
    "liter": "l liter liters litre litres",
    "second": "s sec second seconds",
    "minute": "min minute minutes",
    "hour": "h hr hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years",
    "unit": "unit units",
    "radian": "rad radian radians",
}
MAGNITUDES = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
# Words after a number that are no unit: they change what is said, or take it back.
_NO_UNIT = """
    a an the is so if then at over under below above about around roughly approx approximately actually
    and or nor neither either but not no only also more most less least than greater plus minus times mod to versus vs
    maybe perhaps possible possibly probably unknown yes true false wrong incorrect mistake wait sorry hmm
    squared cubed factorial half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh
    sevenths eighth eighths ninth ninths tenth tenths hundredth hundredths thousandth thousandths gross tens hundreds
    thousands millions billions
"""
NO_UNIT = frozenset(_NO_UNIT.split())
NAMES = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings.split()}
# Bare single letters are variables: 5m is five times m, and 5\text{ m} is five meters.
BARE = {name for name in NAMES if len(name) > 1 or name == "%"} - {"in", "min", "mi", "deg", "rad", "sec"}
JOINERS = {"square", "cubic", "sq", "cu", "per", "squared", "cubed", "/"}
EXPONENT = r"(?:\s*\^\s*\{?(?P<exponent>[23])\}?)?"
WRAPPED = re.compile(rf"(?P<rest>.*\S)\s*\\text\s*\{{\s*(?P<unit>[A-Za-z/ .%]+?)\s*\}}{EXPONENT}")
PLAIN = re.compile(rf"(?P<rest>.*[\d}})\]])\s*(?P<unit>\\?%|\\?\$|[A-Za-z][A-Za-z/ ]*?)\.?{EXPONENT}")
CURRENCY = re.compile(r"(?P<sign>[-+]?)\s*\\?\$\s*(?P<rest>[-+]?[\d.].*)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Text without its trailing unit, the unit's name ("" if none), and what "million" and the like multiply it by."""

    rest: str
    unit: str = ""
    factor: int = 1


def split_unit(text: str) -> Quantity:
    """Split the trailing unit off canonical `text`."""
    if found := CURRENCY.fullmatch(text):
        inner = split_unit(found["rest"])
        if inner.unit not in ("", "dollar"):
            return Quantity(text)
        return Quantity(found["sign"] + inner.rest, "dollar", inner.factor)
    if TRIGONOMETRY.search(text):
        return Quantity(text)  # \sin 30 degrees is no number of degrees
    if found := WRAPPED.fullmatch(text):
        words = found["unit"].strip(" .").split()
        alone = len(words) == 1 and words[0].lower() not in NO_UNIT
        if alone or (all(map(_known, words)) and not all(word.lower() in JOINERS for word in words)):
            return _quantity(found["rest"], words, found["exponent"])
    if found := PLAIN.fullmatch(text):
        words = found["unit"].split()
        known = all(word in BARE or word in JOINERS or word in MAGNITUDES for word in words)
        if known and not all(word in JOINERS for word in words):
            return _quantity(found["rest"], words, found["exponent"])
    return Quantity(text)


def _quantity(rest: str, words: list[str], exponent: str | None) -> Quantity:
    factor = 1
    while words and words[0].lower() in MAGNITUDES:
        factor *= MAGNITUDES[words[0].lower()]
        words = words[1:]
    return Quantity(rest, _name(words, exponent), factor)


def _known(word: str) -> bool:
    return (
        word.lower() in NAMES
        or word.lower() in JOINERS
        or word.lower() in MAGNITUDES
        or all(part in NAMES for part in word.lower().split("/"))
    )


def _name(words: list[str], exponent: str | None) -> str:
    power = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
    name = [NAMES.get(word.lower(), word.lower()) for word in words if word.lower() not in power]
    powers = [power[word.lower()] for word in words if word.lower() in power] + ([exponent] if exponent else [])
    return " ".join(name + powers)
