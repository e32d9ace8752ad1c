"""From text, YAML or JSON to one typed value, with limits."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from slime.config.flags import MAX_INTEGER, Flag, value_text


class ValueProblem(Exception):
    """A value that its flag does not take; the message has the value and the legal range.

    ``item`` is the position, from 0, of the wrong value in a list, or None.
    """

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message)
        self.item = item


def from_texts(one: Flag, texts: Sequence[str]) -> Any:
    """Convert the words of a command line to the flag's value. Raises ValueProblem."""
    if one.many:
        if not texts:
            raise ValueProblem(f"{one.name} needs at least one value: {one.range_text()}")
        return tuple(_checked(one, _from_text(one, text)) for text in texts)
    (text,) = texts
    return _checked(one, _from_text(one, text))


def from_data(one: Flag, data: Any) -> Any:
    """Convert a value read from YAML or JSON. None is the flag's default. Raises ValueProblem."""
    if data is None:
        return one.default
    if one.many:
        items = data if isinstance(data, list) else [data]
        if not items:
            raise ValueProblem(f"{one.name} needs at least one value: {one.range_text()}")
        return tuple(_from_list(one, items))
    return _checked(one, _from_item(one, data))


def _from_list(one: Flag, items: Sequence[Any]) -> Iterator[Any]:
    for position, item in enumerate(items):
        try:
            yield _checked(one, _from_item(one, item))
        except ValueProblem as error:
            raise ValueProblem(str(error), position) from None


def _from_text(one: Flag, text: str) -> Any:
    if "\0" in text:
        raise ValueProblem(f"{one.name} {text!r}: a value cannot contain a NUL character")
    if one.type is str:
        try:
            os.fsencode(text)
        except UnicodeEncodeError as error:
            raise ValueProblem(f"{one.name} {text!r}: character {error.start} is half of a surrogate pair") from None
        return text
    if one.type is bool:
        if text not in ("true", "false"):
            raise ValueProblem(f"{one.name}={text}: a switch is true or false")
        return text == "true"
    if one.type is dict:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueProblem(f"{one.name} {text!r} is not JSON: {error}") from None
        return _from_item(one, data)
    try:
        # Python would read 1_000, full-width digits and surrounding blanks; a shell that means them is mistaken.
        if not text.isascii() or "_" in text or text != text.strip():
            raise ValueError
        return int(text) if one.type is int else float(text)
    except ValueError:
        raise ValueProblem(f"{one.name} {text!r}: must be {one.range_text()}") from None


def _from_item(one: Flag, data: Any) -> Any:
    """One value of a YAML or JSON file: its type must be the flag's, so ``yes`` is not 1 and ``"8"`` is not 8."""
    if one.type is dict:
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise ValueProblem(f"{one.name} {data!r}: must be a JSON object")
        return data
    if one.type is bool and isinstance(data, bool):
        return data
    if one.type is int and isinstance(data, int) and not isinstance(data, bool):
        return data
    if one.type is float and isinstance(data, int | float) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise ValueProblem(f"{one.name} {data!r}: must be {one.range_text()}") from None
    if one.type is float and isinstance(data, str):
        return _from_text(one, data)  # a quoted number
    if one.type is str and isinstance(data, str):
        return _from_text(one, data)
    kind = {bool: "boolean", dict: "mapping", list: "list", str: "text"}.get(type(data), type(data).__name__)
    raise ValueProblem(f"{one.name} {data!r}: this is a {kind}, the flag takes {one.range_text()}")


def _checked(one: Flag, value: Any) -> Any:
    if one.choices is not None and value_text(value) not in one.choices:
        raise ValueProblem(f"{one.name} {value_text(value)}: must be {one.range_text()}")
    if one.type in (int, float):
        _check_limits(one, value)
    return value


def _check_limits(one: Flag, value: float) -> None:
    bad = (
        (isinstance(value, float) and not math.isfinite(value))
        or (one.minimum is not None and value < one.minimum)
        or (one.maximum is not None and value > one.maximum)
        or (one.above is not None and value <= one.above)
    )
    if bad:
        raise ValueProblem(f"{one.name} {value}: must be {one.range_text()}")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueProblem(f"{one.name} {value}: the largest integer that a flag takes is {MAX_INTEGER}")
