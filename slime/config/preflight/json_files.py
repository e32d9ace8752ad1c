"""JSON files of a checkpoint folder, read with a reason when they cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises ValueError with the reason, without the path."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError("no such file") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"a JSON object is expected, this is a {type(data).__name__}")
    return data


def read_optional(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one when the file is missing or broken, which another rule says if it matters."""
    try:
        return read_json(path)
    except ValueError:
        return {}


def whole_number(found: Mapping[str, Any], *names: str) -> int | None:
    """The first of the keys that holds an integer above 0, else None."""
    for name in names:
        value = found.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
