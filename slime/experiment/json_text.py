"""Strict JSON from outside: size, grammar, depth and repeated keys are judged before anything is built.

The same walk runs in JavaScript (``sphinx_slime_lab/js/src/core/json_text.js``), so both refuse the same texts with the
same words. What passes is read by the language's own parser. Numbers are what JavaScript sees: an integer of more than
15 digits becomes the nearest double.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NoReturn

from slime.experiment.errors import LoadError
from slime.experiment.expression import Value
from slime.experiment.messages import MESSAGES
from slime.experiment.texts import Text, fill, shorten

MAXIMUM_BYTES = 256 * 1024
MAXIMUM_DEPTH = 32
NEAR_CHARACTERS = 24

_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(rf"{_STRING}|{_NUMBER}|true|false|null")
_KEY = re.compile(rf"({_STRING})[ \t\n\r]*:")
_EXACT_DIGITS = 15

_Expect = Literal["value", "value or ]", "key", "key or }", "more"]


def read_json(text: str) -> Any:
    """The data of a JSON text. A leading byte order mark is skipped. Raises ``LoadError`` with the line."""
    if len(text.encode("utf-8", "surrogatepass")) > MAXIMUM_BYTES:
        _refuse("json_large", {"maximum": MAXIMUM_BYTES})
    text = text.removeprefix("\ufeff")
    _walk(text)
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _EXACT_DIGITS else float(digits)


def _refuse(key: str, slots: dict[str, Value | Text]) -> NoReturn:
    raise LoadError(fill(MESSAGES[key], slots))


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _refuse_syntax(text: str, at: int) -> NoReturn:
    if at >= len(text):
        _refuse("json_cut", {"line": _line(text, at)})
    _refuse("json_syntax", {"line": _line(text, at), "near": shorten(text[at : at + NEAR_CHARACTERS])})


def _walk(text: str) -> None:
    """Raise ``LoadError`` unless ``text`` is one JSON value within the limits."""
    keys_of_open: list[set[str] | None] = []  # None for a list
    expect: _Expect = "value"
    at = 0
    while True:
        at = _end(_SPACE, text, at)
        mark = text[at : at + 1]
        if expect == "more":
            if not keys_of_open:
                break
            is_list = keys_of_open[-1] is None
            if mark == ("]" if is_list else "}"):
                keys_of_open.pop()
            elif mark == ",":
                expect = "value" if is_list else "key"
            else:
                _refuse_syntax(text, at)
            at += 1
        elif mark == expect[-1] and mark in ("]", "}"):
            keys_of_open.pop()
            expect, at = "more", at + 1
        elif expect in ("key", "key or }"):
            at = _read_key(text, at, keys_of_open[-1])
            expect = "value"
        elif mark in ("[", "{"):
            if len(keys_of_open) == MAXIMUM_DEPTH:
                _refuse("json_deep", {"line": _line(text, at), "maximum": MAXIMUM_DEPTH})
            keys_of_open.append(None if mark == "[" else set())
            expect, at = "value or ]" if mark == "[" else "key or }", at + 1
        else:
            expect, at = "more", _end(_SCALAR, text, at)
    if at < len(text):
        _refuse_syntax(text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return _refuse_syntax(text, at) if match is None else match.end()


def _read_key(text: str, at: int, seen: set[str] | None) -> int:
    match = _KEY.match(text, at)
    if match is None or seen is None:
        _refuse_syntax(text, at)
    key = json.loads(match.group(1))
    if key in seen:
        _refuse("json_twice", {"line": _line(text, at), "key": shorten(key)})
    seen.add(key)
    return match.end()
