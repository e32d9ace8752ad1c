"""Deviations: where a recipe differs from the script that it comes from, each with its reason.

A deviation that names a key which does not exist, or a value that does not differ, is a wrong statement about the
recipe, so it is refused like a wrong number. Whether every difference *is* stated is tested against the source
scripts' numbers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from slime.config.yaml_lines import Path as KeyPath
from slime.experiment.facts_schema import LaunchFile


def dotted_values(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted key; a list is one value."""
    result: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            result.update(dotted_values(value, f"{prefix}{key}."))
        else:
            result[f"{prefix}{key}"] = value
    return result


def check_deviations(recipe: LaunchFile) -> Iterator[tuple[KeyPath, str]]:
    """Yield (path, message) for each deviation whose key is unknown, stands twice, or does not deviate."""
    skipped = {"training_flags", "serving_flags", "environment", "deviations", "sources"}
    values = dotted_values(recipe.model_dump(by_alias=True, exclude=skipped))
    extras = {extra.flag: extra.value for extra in (*recipe.training_flags, *recipe.serving_flags)}
    seen: set[str] = set()
    for index, deviation in enumerate(recipe.deviations):
        path: KeyPath = ("deviations", index, "key")
        if deviation.key in seen:
            yield path, f"{deviation.key} stands twice; one reason for one key"
        seen.add(deviation.key)
        if deviation.key == "environment":
            continue  # the source's variables as a whole: their names are the source value
        if deviation.key.startswith("--"):
            if deviation.key in extras and extras[deviation.key] == deviation.source_value:
                yield (
                    path,
                    f"{deviation.key} has its source value {deviation.source_value!r} here, so it does not deviate",
                )
        elif deviation.key not in values:
            near = difflib.get_close_matches(deviation.key, values, n=1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else "write a dotted key such as parallel.ep, or a flag such as --partial-rollout"
            )
            yield path, f"no key {deviation.key!r} in this file; {hint}"
        elif values[deviation.key] == deviation.source_value and type(values[deviation.key]) is type(
            deviation.source_value
        ):
            yield path, f"{deviation.key} is {deviation.source_value!r} here too, so it does not deviate"
