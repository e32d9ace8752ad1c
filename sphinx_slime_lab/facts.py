"""Facts by a dotted path, such as ``glm-4.7.parallel.tp``, for prose and tables.

A path is the id of a recipe and a key of its launch file, else of its model file, else one of the names that
expressions use (``slime.experiment.environment.FACTS``).
"""

from __future__ import annotations

from typing import Any

from slime.experiment.environment import FACTS, fact_values
from slime.experiment.facts import Facts
from slime.experiment.facts_deviations import dotted_values
from slime.experiment.texts import nearest

_SKIPPED = ("deviations", "sources", "training_flags", "serving_flags", "environment")
NARROW_SPACE = "\u202f"


class FactPathError(KeyError):
    """No such recipe or fact; ``str()`` is a sentence with the nearest name."""

    def __str__(self) -> str:
        return str(self.args[0])


def fact_table(facts: Facts, recipe_id: str) -> dict[str, Any]:
    """Return every fact of a recipe by dotted key: names of expressions, model file, launch file, the later winning."""
    recipe = facts.launch[recipe_id]
    model = facts.models[recipe.model]
    table: dict[str, Any] = dict(fact_values(facts, recipe_id))
    for source in (model, recipe):
        table.update(
            dotted_values(
                {key: value for key, value in source.model_dump(by_alias=True).items() if key not in _SKIPPED}
            )
        )
    return table


def look_up(facts: Facts, path: str) -> Any:
    """Return the value at ``path``. Raises ``FactPathError`` naming the nearest recipe or key."""
    matches = [recipe for recipe in facts.launch if path.startswith(f"{recipe}.")]
    if not matches:
        known = nearest(path.split(".", 1)[0], facts.launch)
        hint = f"; did you mean {known}?" if known else f"; recipes: {', '.join(facts.launch)}"
        raise FactPathError(f"the fact {path!r} starts with no recipe{hint}")
    recipe = max(matches, key=len)
    key = path[len(recipe) + 1 :]
    table = fact_table(facts, recipe)
    if key not in table:
        known = nearest(key, table)
        hint = f"; did you mean {known}?" if known else "; write a key of its launch or model file, such as parallel.tp"
        raise FactPathError(f"{recipe} has no fact {key!r}{hint}")
    return table[key]


def show(value: Any, yes: str = "yes", no: str = "no") -> str:
    """Return how a fact stands in prose: digits grouped from five on, a dash for what a recipe does not have."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return yes if value else no
    if isinstance(value, int):
        return f"{value:,}".replace(",", NARROW_SPACE) if abs(value) >= 10_000 else str(value)
    return str(value)


def meaning(key: str) -> str:
    """Return what a name of expressions means, or nothing for a key of a file."""
    return FACTS[key].doc if key in FACTS else ""
