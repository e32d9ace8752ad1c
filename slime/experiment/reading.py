"""Read a file of choices: YAML or JSON, a flat mapping or an ``experiment.json``.

Nothing is interpreted here: the result goes through ``Catalog.sanitise``. What a file can be is limited in size and
depth before it is parsed, duplicate keys are refused, and the line of every key is kept for messages.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import YamlError, load_yaml_with_lines
from slime.experiment.choices import Ignored, without_choices
from slime.experiment.errors import InputError, LoadError
from slime.experiment.importing import MAXIMUM_KEYS
from slime.experiment.json_text import MAXIMUM_BYTES, read_json
from slime.experiment.messages import MESSAGES
from slime.experiment.texts import Text, fill, shorten

EXPORT_KEYS = ("schema", "generator", "choices", "model", "validation", "provenance")
_JSON_KEY = re.compile(r'"([^"\\]*)"\s*:')


@dataclass(frozen=True)
class Choices:
    """Unjudged choices: the raw data, the name to use in messages, and where each key stands (zero-based lines)."""

    raw: Any
    name: str
    lines: dict[KeyPath, int]

    def line(self, key: str) -> int | None:
        """The one-based line of a choice, or None when the file does not have it."""
        for path in (("choices", key), (key,)) if _is_export(self.raw) else ((key,),):
            if path in self.lines:
                return self.lines[path] + 1
        return next((line + 1 for path, line in self.lines.items() if path and shorten(str(path[-1])) == key), None)

    def unused(self) -> list[str]:
        """The keys of an export that are no part of the format of today; an earlier export had others."""
        if not _is_export(self.raw) or self.raw["schema"] == 1:
            return []
        return [str(key) for key in self.raw if key not in EXPORT_KEYS]

    def place(self, key: str) -> str:
        """``file:line`` of a choice, or ``file`` when the file does not have it."""
        line = self.line(key)
        return self.name if line is None else f"{self.name}:{line}"

    def message(self, ignored: Ignored, language: str) -> str:
        """``file:line: reason`` with the nearest legal word."""
        hint = ""
        if ignored.nearest is not None:
            hint = f" 最接近的是 {ignored.nearest}。" if language == "zh" else f" Nearest: {ignored.nearest}."
        return f"{self.place(ignored.key)}: {ignored.reason.get(language)}{hint}"


def read_choices(source: Path) -> Choices:
    """Read a file. Raises ``InputError`` when it is absent, too large, no UTF-8, no YAML/JSON, or empty."""
    name = str(source)
    try:
        with source.open("rb") as file:
            content = file.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise InputError(fill(MESSAGES["no_file"], {"why": error.strerror}), name) from None
    if len(content) > MAXIMUM_BYTES:
        raise InputError(fill(MESSAGES["file_large"], {"maximum": MAXIMUM_BYTES}), name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(fill(MESSAGES["not_utf8"], {"position": error.start}), name) from None
    if source.suffix == ".json":
        try:
            read_json(text)  # which names what is wrong as JSON; YAML would take some of it and mislead about the rest
        except LoadError as error:
            raise InputError(error.reason, name) from None
    found = read_text(text, name)
    if found.raw == {}:
        raise InputError(MESSAGES["file_empty"], name)
    return found


def read_text(text: str, name: str) -> Choices:
    """Read YAML or JSON text. Raises ``InputError``.

    An empty document is an experiment with every choice at its default.
    """
    if len(text.encode("utf-8", "replace")) > MAXIMUM_BYTES:
        raise InputError(fill(MESSAGES["file_large"], {"maximum": MAXIMUM_BYTES}), name)
    if text.lstrip().startswith("{"):
        json_data = _read_json(text, name)
        if json_data is not None:
            return _choices(json_data, name, _json_lines(text, json_data))
    try:
        data, lines = load_yaml_with_lines(text)
    except YamlError as error:
        raise InputError(Text(error.message_zh, error.message), name, error.line) from None
    return _choices({} if data is None else data, name, lines)


def _choices(raw: Any, name: str, lines: dict[KeyPath, int]) -> Choices:
    if _is_export(raw) and "choices" not in raw:
        reason, close = without_choices(raw)
        raise InputError(reason, name, lines.get(("schema",) if close is None else (close,)))
    return Choices(raw, name, lines)


def _read_json(text: str, name: str) -> Any:
    """The data of a JSON text, or None when it is none (a YAML flow mapping also starts with a brace)."""
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except _Duplicate:
        try:
            return read_json(text)  # the strict reader, which names the line
        except LoadError as error:
            raise InputError(error.reason, name) from None
    except (ValueError, RecursionError):
        return None


class _Duplicate(Exception):
    """A key that stands twice in one JSON object."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Duplicate(key)
        result[key] = value
    return result


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _json_lines(text: str, data: Any) -> dict[KeyPath, int]:
    """Where keys stand: as YAML sees it, or, for JSON that YAML cannot read, the first line that holds the key.

    More keys than are read get no lines, because finding them takes seconds and the file is refused anyway.
    """
    if any(isinstance(one, dict) and len(one) > MAXIMUM_KEYS for one in (data, *_values(data))):
        return {}
    try:
        return load_yaml_with_lines(text)[1]
    except YamlError:
        lines: dict[KeyPath, int] = {}
        for number, line in enumerate(text.split("\n")):
            for key in _JSON_KEY.findall(line):
                lines.setdefault((key,), number)
        return lines


def _values(data: Any) -> list[Any]:
    return list(data.values()) if isinstance(data, dict) else []


def _is_export(raw: Any) -> bool:
    return isinstance(raw, dict) and "schema" in raw
