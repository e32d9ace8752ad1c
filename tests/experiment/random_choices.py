"""Random choices, mostly legal, some hostile: what the random tests of both engines feed on."""

from __future__ import annotations

import random
from typing import Any

from slime.experiment import Catalog
from slime.experiment.schema import ChoiceField

HOSTILE: list[Any] = [
    "", "/data/x", "it's $(touch /tmp/x) `id` \"q\"", "-rf", "a\nb\tc", " 中文 😀 ", "@COMMIT@ {nodes}",
    "mlx5_0,mlx5_1",
    "host:30000 [::1]:80", "pkg.mod.fn", "run-1", "0.9", "x" * 2048, "y" * 2049, "\u2028\u202e\ufeff", "~/x",
]  # fmt: skip
WRONG: list[Any] = [None, True, 0, 1, -1, 8.0, 2.5, 2**60, "8", "true", [], [1], {}, {"a": 1}, "layot"]
FOREIGN = ["step", "hff", "__proto__", "constructor", "1", "9", "10", "é", "😀", "a\u0000b", "Layout"]


def random_value(dice: random.Random, choice: ChoiceField) -> Any:
    """A value for one choice: legal, at its limits, or of a wrong type."""
    if dice.random() < 0.06:
        return dice.choice(WRONG)
    if choice.type == "enum":
        return dice.choice([one.value for one in choice.values])
    if choice.type == "bool":
        return dice.random() < 0.5
    if choice.type == "int":
        low, high = choice.minimum or 0, choice.maximum or 0
        near = [1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 4096]
        return dice.choice([*(number for number in near if low <= number <= high), low, high, low - 1, high + 1])
    return dice.choice(HOSTILE)


def random_raw(dice: random.Random, catalog: Catalog) -> Any:
    """What a file of choices may hold."""
    if dice.random() < 0.01:
        return dice.choice([None, [], "x", 3, {"schema": 3, "choices": {}}, {"schema": True}, {"schema": 1}])
    fields = list(catalog.tables.fields)
    chosen = dice.sample(fields, dice.randint(0, dice.choice([4, 12, len(fields)])))
    raw: dict[str, Any] = {choice.name: random_value(dice, choice) for choice in chosen}
    if dice.random() < 0.7:
        raw["model"] = dice.choice([*catalog.facts.launch, *catalog.facts.legacy])
    if dice.random() < 0.15:
        raw[dice.choice(FOREIGN)] = dice.choice(WRONG)
    if dice.random() < 0.1:
        return {"schema": dice.choice([1, 2]), "choices": raw, "validation": {"errors": []}}
    return raw
