"""The JSON Schema of ``experiment.json``, made from the choices themselves."""

from __future__ import annotations

from typing import Any

from slime.experiment.artifacts import SCHEMA
from slime.experiment.schema import ChoiceField
from slime.experiment.tables import ACCOUNTING, Tables


def export_schema(tables: Tables) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the export; ``choices`` alone also describes a flat file of choices."""
    ids = {"type": "array", "items": {"type": "string", "pattern": "^[A-Z][0-9]{2}$"}}
    counts = {name: {"type": "integer"} for name in ACCOUNTING}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "slime experiment",
        "type": "object",
        "additionalProperties": False,
        "required": ["schema", "choices"],
        "properties": {
            "schema": {"const": SCHEMA},
            "generator": {"type": "string"},
            "choices": {
                "type": "object",
                "additionalProperties": False,
                "properties": {choice.name: _choice(choice) for choice in tables.fields},
            },
            "model": {"type": "string"},
            "validation": {
                "type": "object",
                "additionalProperties": False,
                "required": ["errors", "notes", "planned", "accounting"],
                "properties": {
                    "errors": ids,
                    "notes": ids,
                    "planned": ids,
                    "accounting": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": list(counts),
                        "properties": counts,
                    },
                },
            },
            "provenance": {"type": ["object", "null"]},
        },
    }


def _choice(choice: ChoiceField) -> dict[str, Any]:
    described = {"title": choice.label.en, "description": choice.help.en, "default": choice.default}
    if choice.type == "enum":
        return {**described, "enum": [value.value for value in choice.values]}
    if choice.type == "bool":
        return {**described, "type": "boolean"}
    if choice.type == "int":
        return {**described, "type": "integer", "minimum": choice.minimum, "maximum": choice.maximum}
    return {**described, "type": "string", "maxLength": choice.max_length}
