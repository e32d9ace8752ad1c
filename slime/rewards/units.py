r"""Trailing units (``5\text{ cm}``, ``45 \text{degree}``, ``5 days``, ``\$5``, ``50\%``): split off, compared."""

from __future__ import annotations

import re

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
NAMES = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings.split()}
# Bare single letters are variables: 5m is five times m, and 5\text{ m} is five meters.
BARE = {name for name in NAMES if len(name) > 1 or name == "%"} - {"in", "min", "mi", "deg", "rad", "sec"}
JOINERS = {"square", "cubic", "sq", "cu", "per", "squared", "cubed", "/"}
EXPONENT = r"(?:\s*\^\s*\{?(?P<exponent>[23])\}?)?"
WRAPPED = re.compile(rf"(?P<rest>.*\S)\s*\\text\s*\{{\s*(?P<unit>[A-Za-z/ .%]+?)\s*\}}{EXPONENT}")
PLAIN = re.compile(rf"(?P<rest>.*[\d}})\]])\s*(?P<unit>\\?%|\\?\$|[A-Za-z][A-Za-z/ ]*?)\.?{EXPONENT}")
CURRENCY = re.compile(r"(?P<sign>[-+]?)\s*\\?\$\s*(?P<rest>[-+]?[\d.].*)")


def split_unit(text: str) -> tuple[str, str]:
    """Canonical `text` without its trailing unit, and the unit's name ("" if there is none)."""
    if found := CURRENCY.fullmatch(text):
        return found["sign"] + found["rest"], "dollar"
    if found := WRAPPED.fullmatch(text):
        words = found["unit"].strip(" .").split()
        if len(words) == 1 or (words and all(_known(word) for word in words)):
            return found["rest"], _name(words, found["exponent"])
    if found := PLAIN.fullmatch(text):
        words = found["unit"].split()
        if all(word in BARE or word in JOINERS for word in words):
            return found["rest"], _name(words, found["exponent"])
    return text, ""


def _known(word: str) -> bool:
    return word.lower() in NAMES or word.lower() in JOINERS or all(part in NAMES for part in word.lower().split("/"))


def _name(words: list[str], exponent: str | None) -> str:
    power = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
    name = [NAMES.get(word.lower(), word.lower()) for word in words if word.lower() not in power]
    powers = [power[word.lower()] for word in words if word.lower() in power] + ([exponent] if exponent else [])
    return " ".join(name + powers)
