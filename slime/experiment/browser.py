"""The catalogue as plain JSON data: what ``createEngine`` in the browser is made from.

Expressions have become lists and everything whose order matters is an array, so the text may be written with sorted
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slime.experiment.facts_schema import ExtraFlag, FactModel
from slime.experiment.layout import LAYOUT_TEXTS
from slime.experiment.messages import MESSAGES
from slime.experiment.tables import ACCOUNTING, FlagStatus, Tables
from slime.experiment.tour import tour

FORMAT = 1


def catalog_json(tables: Tables) -> dict[str, Any]:
    """The whole of ``tables`` as dicts, lists, texts, integers, booleans and null."""
    arguments = tables.arguments
    return {
        "format": FORMAT,
        "accounting": list(ACCOUNTING),
        "steps": _rows(tables.steps),
        "fields": [_row(one, "guide") for one in tables.fields],
        "derived": _rows(tables.derived),
        "retired": _rows(tables.retired),
        "transitions": _rows(tables.transitions),
        "rules": [_row(rule, "examples", "source") for rule in tables.rules],
        "groups": _rows(arguments.groups),
        "arguments": [
            {**_row(row, "shell"), "shell": list(row.shell_words), "literal": _literal(tables, row.value, row.each)}
            for row in arguments.arguments
        ],
        "environment": _rows(arguments.environment),
        "slots": {
            name: {**_row(slot), "literal": _literal(tables, slot.value)} for name, slot in arguments.slots.items()
        },
        "blocks": {name: _rows(parts) for name, parts in arguments.blocks.items()},
        "memory": {
            "derived": _rows(tables.memory.derived),
            "phases": [
                {
                    **_row(phase, "ranks", "derived", "terms"),
                    "ranks": [{**_row(rank), "values": _rows(rank.values)} for rank in phase.ranks],
                    "derived": _rows(phase.derived),
                    "terms": _rows(phase.terms),
                }
                for phase in tables.memory.phases
            ],
        },
        "presets": _rows(tables.presets),
        "links": _row(tables.links),
        "tour": asdict(tour(tables.tour)),
        "templates": dict(tables.templates),
        "flags": {name: _flag(status) for name, status in tables.flags.items()},
        "legacy": dict(tables.facts.legacy),
        "models": {model: _model(tables, model) for model in tables.facts.launch},
        "images": {image: dict(values) for image, values in tables.image_values.items()},
        "messages": {key: asdict(text) for key, text in MESSAGES.items()},
        "layout_texts": {key: asdict(text) for key, text in LAYOUT_TEXTS.items()},
    }


def _flag(status: FlagStatus) -> dict[str, Any]:
    return {**asdict(status), "only": None if status.only is None else list(status.only)}


def _literal(tables: Tables, *expressions: Any) -> bool:
    return any(tables.carries_user_text(expression) for expression in expressions)


def _row(row: FactModel, *without: str) -> dict[str, Any]:
    """One mapping of a data file; absent keys are left out."""
    dumped = row.model_dump(mode="json", by_alias=True, exclude=set(without))
    return {key: value for key, value in dumped.items() if value is not None}


def _rows(rows: Sequence[FactModel]) -> list[dict[str, Any]]:
    return [_row(row) for row in rows]


def _model(tables: Tables, model: str) -> dict[str, Any]:
    recipe = tables.facts.launch[model]
    return {
        "facts": dict(tables.fact_values[model]),
        "defaults": dict(tables.model_defaults[model]),
        "training_flags": _flags(recipe.training_flags),
        "serving_flags": _flags(recipe.serving_flags),
        "environment": [
            {"name": name, "value": recipe.environment[name].value, "why": recipe.environment[name].why.model_dump()}
            for name in sorted(recipe.environment)
        ],
    }


def _flags(flags: Sequence[ExtraFlag]) -> list[dict[str, Any]]:
    return [{"flag": one.flag, "value": one.value, "why": one.why.model_dump()} for one in flags]


_SECTIONS = {
    "fields": ("help", "why"),
    "rules": ("message", "title"),
    "arguments": ("why",),
    "environment": ("why",),
    "models": ("why",),
    "memory": ("label", "what", "formula"),
    "transitions": ("announce",),
}
"""Sentences that stand on the page alone, by section. Labels and group titles go into the scripts too, in English."""


def readers_catalog(catalog: dict[str, Any], language: str) -> dict[str, Any]:
    """``catalog`` for pages of one language: sentences that no generated file holds are empty in the other.

    A page in one language never shows them, and they are a third of what it would load.
    """
    other = "en" if language == "zh" else "zh"
    return {
        key: _silenced(value, _SECTIONS[key], other) if key in _SECTIONS else value for key, value in catalog.items()
    }


def _silenced(value: Any, keys: tuple[str, ...], language: str) -> Any:
    if isinstance(value, list):
        return [_silenced(one, keys, language) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {**inner, language: ""} if key in keys and isinstance(inner, dict) else _silenced(inner, keys, language)
        for key, inner in value.items()
    }
