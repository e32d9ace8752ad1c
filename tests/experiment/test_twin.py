"""2,000 random experiments with edits and repairs: Python and JavaScript give the same bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slime.experiment import Catalog, ChoiceError
from slime.experiment.schema import ChoiceField

from .corpus import PROVENANCE
from .twin import ask, canonical

EXPERIMENTS = 2000
HOSTILE: list[Any] = [
    "", "/data/x", "it's $(touch /tmp/x) `id` \"q\"", "-rf", "a\nb\tc", " 中文 😀 ", "@COMMIT@ {nodes}",
    "mlx5_0,mlx5_1",
    "host:30000 [::1]:80", "pkg.mod.fn", "run-1", "0.9", "x" * 2048, "y" * 2049, "\u2028\u202e\ufeff", "~/x",
]  # fmt: skip
WRONG: list[Any] = [None, True, 0, 1, -1, 8.0, 2.5, 2**60, "8", "true", [], [1], {}, {"a": 1}, "layot"]
FOREIGN = ["step", "hff", "__proto__", "constructor", "1", "9", "10", "é", "😀", "a\u0000b", "Layout"]


def _value(dice: random.Random, choice: ChoiceField) -> Any:
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


def _raw(dice: random.Random, catalog: Catalog) -> Any:
    if dice.random() < 0.01:
        return dice.choice([None, [], "x", 3, {"schema": 3, "choices": {}}, {"schema": True}, {"schema": 1}])
    fields = list(catalog.tables.fields)
    chosen = dice.sample(fields, dice.randint(0, dice.choice([4, 12, len(fields)])))
    raw: dict[str, Any] = {choice.name: _value(dice, choice) for choice in chosen}
    if dice.random() < 0.7:
        raw["model"] = dice.choice([*catalog.facts.launch, *catalog.facts.legacy])
    if dice.random() < 0.15:
        raw[dice.choice(FOREIGN)] = dice.choice(WRONG)
    if dice.random() < 0.1:
        return {"schema": dice.choice([1, 2]), "choices": raw, "validation": {"errors": []}}
    return raw


class _Session:
    """Asks Python at once and remembers the request for JavaScript."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.requests: list[list[Any]] = []
        self.expected: list[str] = []

    def call(self, method: str, *arguments: Any) -> Any:
        """Python's answer, or None when it refused."""
        self.requests.append([method, *arguments])
        try:
            value = getattr(self.catalog, method)(*arguments)
        except ChoiceError as error:
            refused = {"refused": error.reason, "nearest": error.nearest, "field": error.field}
            self.expected.append(canonical(refused))
            return None
        self.expected.append(canonical({"value": value}))
        return value

    def look(self, state: dict[str, Any]) -> Any:
        """Everything that a page shows of a state; returns the validation."""
        validation = self.call("validate", state)
        for method in ("view", "layout", "arguments", "environment"):
            self.call(method, state)
        self.call("artifacts", state, PROVENANCE)
        return validation


def _play(session: _Session, dice: random.Random) -> None:
    """One experiment: read, look, edit a few times, look, try every repair that is offered."""
    state = session.call("sanitise", _raw(dice, session.catalog)).state
    session.look(state)
    for _ in range(dice.randint(0, 4)):
        choice = dice.choice(session.catalog.tables.fields)
        changed = session.call("change", state, choice.name, _value(dice, choice))
        state = changed.state if changed is not None else state
    for finding in session.look(state).findings:
        for repair in finding.repairs:
            session.call("repair", state, finding.id, repair.id)
    session.call("repair", state, "E01", "none")


@pytest.mark.slow
def test_both_engines_give_the_same_bytes(catalog: Catalog) -> None:
    dice = random.Random(20240603)
    session = _Session(catalog)
    for _ in range(EXPERIMENTS):
        _play(session, dice)
    for preset in [*(one.id for one in catalog.tables.presets), "none"]:
        session.call("preset", preset)
    session.call("defaults")
    answers = ask(catalog.to_json(), session.requests)
    for request, expected, answer in zip(session.requests, session.expected, answers, strict=True):
        assert answer == expected, request
    repaired = sum(
        request[0] == "repair" and '"value"' in answer
        for request, answer in zip(session.requests, answers, strict=True)
    )
    assert repaired > EXPERIMENTS // 10, "the random experiments must reach the repairs"
