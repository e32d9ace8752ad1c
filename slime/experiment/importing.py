"""Load an experiment from JSON text: an export of schema 1 or 2, or a bare mapping of choices.

Only choices are taken. What the text says about its validation or origin is never trusted; it is made anew. A text
without a single known choice is refused, because replacing an experiment by the defaults would not be loading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slime.experiment.choices import Ignored, kind_of, sanitise, unwrap
from slime.experiment.errors import LoadError
from slime.experiment.json_text import read_json
from slime.experiment.messages import MESSAGES
from slime.experiment.tables import State, Tables
from slime.experiment.texts import fill, shorten

MAXIMUM_KEYS = 256


@dataclass(frozen=True)
class Loaded:
    """A complete, legal state; what of the choices did not arrive; and what else the text had.

    ``schema`` is the number of the export, None for bare choices. ``unused`` are the export's other keys, such as its
    validation and provenance.
    """

    state: State
    ignored: list[Ignored]
    schema: int | None
    unused: list[str]


def load(tables: Tables, text: str) -> Loaded:
    """Read JSON text. Raises ``LoadError``; the reason says what the text is instead."""
    raw = read_json(text)
    choices, problem = unwrap(raw)
    if problem is not None:
        raise LoadError(problem.reason)
    known_mapping(tables, choices)
    result = sanitise(tables, choices)
    is_export = "schema" in raw
    unused = sorted(key for key in raw if key not in ("schema", "choices")) if is_export else []
    schema = int(raw["schema"]) if is_export else None
    return Loaded(result.state, result.ignored, schema, [shorten(key) for key in unused[:MAXIMUM_KEYS]])


def known_mapping(tables: Tables, choices: Any) -> Mapping[str, Any]:
    """``choices`` itself. Raises ``LoadError`` unless it is a mapping of bearable size with a known choice in it."""
    if not isinstance(choices, Mapping):
        raise LoadError(fill(MESSAGES["not_mapping"], {"got": kind_of(choices)}))
    limit_keys(tables, choices)
    if not any(key in tables.by_name for key in choices):
        raise LoadError(MESSAGES["nothing_known"])
    return choices


def limit_keys(tables: Tables, choices: Any) -> None:
    """Raise ``LoadError`` for a mapping of more keys than anyone wrote by hand."""
    if isinstance(choices, Mapping) and len(choices) > MAXIMUM_KEYS:
        slots = {"got": len(choices), "maximum": MAXIMUM_KEYS, "known": len(tables.fields)}
        raise LoadError(fill(MESSAGES["too_many_keys"], slots))
