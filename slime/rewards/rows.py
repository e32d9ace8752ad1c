"""Rows to grade, one JSON object a line, read a few at a time so that a file of any size needs the same memory."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from slime.rewards.graders import REMOTE, UnknownGrader, find_grader
from slime.rewards.pool import GradeRequest

KEYS = ("grader", "response", "gold")
MAX_LINE = 64 << 20
BATCH_ROWS = 128
BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file.

    Attributes:
        line: its number, from 1.
        id: what the row calls itself; its line number if it has no id.
        request: what to grade; None if the row is unusable.
        problem: why it is.
    """

    line: int
    id: Any
    request: GradeRequest | None
    problem: str = ""


def read_batches(stream: IO[bytes]) -> Iterator[list[Row]]:
    """Rows in order, some at a time; blank lines are passed over, and an unusable line is a row with a problem."""
    batch: list[Row] = []
    size = 0
    for number, line in _lines(stream):
        if line is not None and not line.strip():
            continue
        batch.append(read_row(number, line))
        size += len(line or b"")
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Lines with their numbers; None for one that is longer than `MAX_LINE`, of which no more is kept."""
    number = 0
    while line := stream.readline(MAX_LINE):
        number += 1
        too_long = len(line) == MAX_LINE and not line.endswith(b"\n")
        while too_long and line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE)
        yield number, None if too_long else line


def read_row(number: int, line: bytes | None) -> Row:
    """One row; its problem says what is wrong and what would be right."""
    if line is None:
        return Row(number, number, None, f"the line is longer than {MAX_LINE >> 20} MiB")
    try:
        values = json.loads(line, object_pairs_hook=_unique)
    except _DuplicateKeyError as error:
        return Row(number, number, None, f"the key {error.args[0]!r} stands twice")
    except RecursionError:
        return Row(number, number, None, "no JSON that can be read: too many levels of nesting")
    except UnicodeDecodeError as error:
        return Row(number, number, None, f"byte {error.start} of the line is not UTF-8")
    except json.JSONDecodeError as error:
        return Row(number, number, None, f"no JSON: {error.msg} at column {error.colno}")
    except ValueError:
        return Row(number, number, None, "no JSON that can be read: a number has too many digits")
    if not isinstance(values, dict):
        hint = "; write one object a line (jq -c '.[]' turns an array into lines)" if isinstance(values, list) else ""
        return Row(number, number, None, f"a {type(values).__name__}, not an object{hint}")
    name = values.get("id", number)
    if problem := _problem(values):
        return Row(number, name, None, problem)
    metadata, prompt = values.get("metadata") or {}, values.get("prompt") or ""
    return Row(number, name, GradeRequest(values["grader"], values["response"], values["gold"], metadata, prompt))


class _DuplicateKeyError(ValueError):
    """A key of an object stands twice; the argument is the key."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _DuplicateKeyError(key)
        values[key] = value
    return values


def _problem(values: dict[str, Any]) -> str:
    for key in KEYS:
        if key not in values:
            near = difflib.get_close_matches(key, values, n=1)
            hint = f"; the nearest key is {near[0]!r}" if near else f"; a row has the keys id, {', '.join(KEYS)}"
            return f"no key {key!r}{hint}"
    for key, kind in (("grader", str), ("response", str), ("prompt", str), ("metadata", dict)):
        if values.get(key) is not None and not isinstance(values[key], kind):
            return f"{key!r} is {values[key]!r:.40}, not a {'text' if kind is str else 'mapping'}"
    if values["response"] is None or values["grader"] is None:
        return "'grader' and 'response' are texts, and one of them is null"
    try:
        if values["grader"].strip() != REMOTE:
            find_grader(values["grader"])
    except UnknownGrader as error:
        return str(error)
    return ""
