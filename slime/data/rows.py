"""Rows of a prompt file (.jsonl or .parquet), optionally sliced: ``train.jsonl@[0:1000]``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SLICE = re.compile(r"(?P<path>.+)@\[(?P<start>(?:-?[0-9]{1,18})?):(?P<stop>(?:-?[0-9]{1,18})?)\]")
SUFFIXES = (".jsonl", ".parquet")


class PromptFileError(ValueError):
    """A prompt file cannot be used; the message starts with ``file:line`` where there is a line.

    Attributes:
        flag: the flag whose value does not fit the file; None when it is the file itself.
    """

    def __init__(self, message: str, flag: str | None = None) -> None:
        super().__init__(message)
        self.flag = flag


@dataclass(frozen=True, slots=True)
class Row:
    """One row and where it stands: a one-based line of a .jsonl file, a one-based row of a .parquet file."""

    values: dict[str, Any]
    place: str


def split_slice(spec: str) -> tuple[Path, slice]:
    """``path@[a:b]`` to path and slice; either bound may be left out, negative ones count from the end.

    Raises:
        PromptFileError: for a suffix that begins with ``@[`` and is not a slice.
    """
    found = SLICE.fullmatch(spec)
    if found:
        bounds = [int(found[name]) if found[name] else None for name in ("start", "stop")]
        return Path(found["path"]), slice(*bounds)
    if "@[" in spec:
        raise PromptFileError(
            f"{spec}: the part from '@[' on is no slice; write path@[start:stop], e.g. {_example(spec)}."
        )
    return Path(spec), slice(None)


def read_rows(spec: str) -> list[Row]:
    """All rows of the file, sliced. Blank lines of a .jsonl file are no rows.

    Raises:
        PromptFileError: missing or unreadable file, unknown suffix, a line that is no JSON object, no rows left.
    """
    path, chosen = split_slice(spec)
    if path.suffix not in SUFFIXES:
        raise PromptFileError(
            f"{path}: the suffix {path.suffix!r} is unknown; a prompt file ends in {' or '.join(SUFFIXES)}."
        )
    try:
        if not path.is_file():
            raise PromptFileError(f"{path}: no such file.{_neighbours(path)}")
        rows = list(_jsonl(path) if path.suffix == ".jsonl" else _parquet(path))
    except OSError as error:
        raise PromptFileError(f"{path}: cannot be read: {error.strerror or error}.") from error
    kept = rows[chosen]
    if not kept:
        raise PromptFileError(f"{spec}: no rows left; the file holds {len(rows)}.")
    return kept


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, start=1):
            if not raw.strip():
                continue
            try:
                values = json.loads(raw.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise PromptFileError(f"{path}:{number}: not UTF-8 at byte {error.start} of the line.") from error
            except json.JSONDecodeError as error:
                raise PromptFileError(f"{path}:{number}:{error.colno}: not JSON: {error.msg}.") from error
            except RecursionError:
                raise PromptFileError(f"{path}:{number}: nested too deeply to be read.") from None
            except ValueError as error:  # an integer with thousands of digits
                raise PromptFileError(f"{path}:{number}: cannot be read: {error}.") from error
            if not isinstance(values, dict):
                raise PromptFileError(f"{path}:{number}: a row is a JSON object, this is a {type(values).__name__}.")
            yield Row(values, f"{path}:{number}")


def _parquet(path: Path) -> Iterator[Row]:
    try:
        # Half of the runs read .jsonl only and need not pay for this import.
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise PromptFileError(f"{path}: reading .parquet needs pyarrow; pip install pyarrow, or use .jsonl.") from error
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches():
                for values in batch.to_pylist():
                    number += 1
                    yield Row(values, f"{path}:{number}")
    except pyarrow.ArrowException as error:
        raise PromptFileError(f"{path}: not a parquet file that can be read: {error}.") from error


def _example(spec: str) -> str:
    return f"{spec.split('@[', maxsplit=1)[0]}@[0:1000]"


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f" The folder {path.parent} does not exist either."
    there = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix in SUFFIXES)[:5]
    return f" The folder holds: {', '.join(there)}." if there else f" The folder {path.parent} holds no prompt file."
