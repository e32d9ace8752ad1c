"""One message of each rule, for the reference page: data that the tests make from their cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

FILE = Path(__file__).with_suffix(".json")


class Example(TypedDict):
    """What a rule said of something that it refuses."""

    level: str
    severity: str
    message: str
    hint: str


def load_examples() -> dict[str, Example]:
    """Rule id -> its example; a rule without checks has none."""
    found: dict[str, Example] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
