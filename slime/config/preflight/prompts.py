"""The first rows of the prompt files: they parse, have the columns, and are not templated twice."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from slime.config.config import Config
from slime.config.errors import Problem

ROWS = 64
_SLICE = re.compile(r"(?P<path>.+)@\[(?P<start>-?\d*):(?P<stop>-?\d*)\]")
# Turn markers of the common chat templates.
_TEMPLATED = re.compile(r"<\|(im_start|im_end|user|assistant|system|start_header_id|eot_id)\|>|\[/?INST\]|<｜User｜>")

Row = tuple[int, Mapping[str, Any]]


def check_prompt_files(config: Config, rows: int = ROWS) -> Iterator[Problem]:
    """Check the first ``rows`` rows of the training prompts and of each evaluation set."""
    yield from check_prompt_file(config, config.prompt_data, "--prompt-data", config.input_key, config.label_key, rows)
    for dataset in config.eval_datasets:
        flag = f"--eval-prompt-data {dataset.name}"
        yield from check_prompt_file(config, dataset.path, flag, config.eval_input_key, config.eval_label_key, rows)


def check_prompt_file(
    config: Config, spec: str, flag: str, input_key: str, label_key: str | None, rows: int = ROWS
) -> Iterator[Problem]:
    """Check one prompt file; the first row that is wrong ends the check of its kind."""
    match = _SLICE.fullmatch(spec)
    path = Path(match["path"] if match else spec)
    if path.suffix not in (".jsonl", ".parquet"):
        yield Problem("data", f"{flag} {spec}: the suffix is {path.suffix!r}", "a prompt file is .jsonl or .parquet")
        return
    if not path.is_file():
        yield Problem("data", f"{flag} {spec}: no such file", _neighbours(path))
        return
    try:
        found = list(islice(_read_rows(path), rows))
    except ValueError as error:
        yield Problem("data", f"{flag} {error}")
        return
    except OSError as error:
        yield Problem("data", f"{flag} {path} cannot be read: {error.strerror}")
        return
    if not found:
        yield Problem("data", f"{flag} {path} has no rows")
        return
    yield from _check_column(path, found, input_key, "--input-key")
    if label_key:
        yield from _check_column(path, found, label_key, "--label-key")
    yield from _check_prompts(config, path, found, input_key)


def _check_column(path: Path, rows: list[Row], key: str, flag: str) -> Iterator[Problem]:
    for line, row in rows:
        if key not in row:
            nearest = difflib.get_close_matches(key, [str(one) for one in row], n=1, cutoff=0.5)
            keys = ", ".join(sorted(map(str, row))) or "none"
            hint = f"did you mean {flag} {nearest[0]}?" if nearest else f"give one of these to {flag}"
            yield Problem("data", f"{path}:{line}: no column {key!r}; its columns are {keys}", hint, (flag,))
            return
        if _empty(row[key]):
            noun = "reference answer" if flag == "--label-key" else "prompt"
            yield Problem(
                "data", f"{path}:{line}: {key!r} is {row[key]!r}: there is no {noun}", "remove the row", (flag,)
            )
            return


def _check_prompts(config: Config, path: Path, rows: list[Row], key: str) -> Iterator[Problem]:
    prompts = [(line, row[key]) for line, row in rows if key in row and not _empty(row[key])]
    for line, prompt in prompts:
        if isinstance(prompt, list) and not config.apply_chat_template:
            yield Problem(
                "data",
                f"{path}:{line}: {key!r} is a list of messages, and nothing renders it to text",
                "add --apply-chat-template",
                ("--apply-chat-template",),
            )
            return
        if not isinstance(prompt, str | list):
            yield Problem(
                "data", f"{path}:{line}: {key!r} is a {type(prompt).__name__}, not text or a list of messages"
            )
            return
    if not config.apply_chat_template:
        return
    marked = [
        (line, found[0]) for line, text in prompts if isinstance(text, str) and (found := _TEMPLATED.search(text))
    ]
    if marked:
        line, marker = marked[0]
        yield Problem(
            "data",
            f"{path}:{line}: the prompt contains {marker} already ({len(marked)} of {len(prompts)} rows do), and "
            "--apply-chat-template would wrap it again",
            "drop --apply-chat-template, or give the file without the template",
            ("--apply-chat-template",),
            severity="warning",
        )


def _read_rows(path: Path) -> Iterator[Row]:
    return _read_jsonl(path) if path.suffix == ".jsonl" else _read_parquet(path)


def _read_jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                row = json.loads(raw)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{line}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{line}: a JSON object is expected, this is a {type(row).__name__}")
            yield line, row


def _read_parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"{path}: reading .parquet needs the package pyarrow") from None
    try:
        number = 0
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=ROWS):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: not a parquet file: {error}") from None


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list) and not (value.strip() if isinstance(value, str) else value))


def _neighbours(path: Path) -> str:
    """Prompt files in the same folder, nearest name first."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    names = [one.name for one in path.parent.iterdir() if one.suffix in (".jsonl", ".parquet")]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.75)
    return "the folder has " + ", ".join(near) if near else "run the stage prepare first"
