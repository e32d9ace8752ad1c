"""All the data of the engine, joined: what every function of this package reads and nothing else.

``Tables`` is built once by ``loading.py`` and never changes. The state that the functions pass around is a flat
``dict`` from the name of a choice to a text, a boolean or an integer, in the order of ``fields.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from slime.experiment import schema
from slime.experiment.expression import Expression, Value
from slime.experiment.facts import Facts
from slime.experiment.memory_schema import MemoryFile
from slime.experiment.tour import TourFile

Scalar: TypeAlias = "str | bool | int"
State: TypeAlias = "dict[str, Scalar]"

ACCOUNTING = ("train_gpus", "rollout_gpus", "ray_gpus", "engines", "prefill_gpus", "decode_gpus", "dp")
"""Derived values that ``fields.yaml`` must define: GPUs, engines and data-parallel ranks of the experiment."""


@dataclass(frozen=True)
class FlagStatus:
    """What the runtime's flag registry says about one flag of the argument table."""

    runs: bool
    only: tuple[str, ...] | None
    numeric: bool
    switch: bool


@dataclass(frozen=True)
class Tables:
    """Fields, rules, arguments and facts. Lists keep the order of their files."""

    facts: Facts
    steps: tuple[schema.Step, ...]
    fields: tuple[schema.ChoiceField, ...]
    derived: tuple[schema.Derived, ...]
    retired: tuple[schema.Retired, ...]
    transitions: tuple[schema.Transition, ...]
    rules: tuple[schema.Rule, ...]
    arguments: schema.ArgumentsFile
    memory: MemoryFile
    presets: tuple[schema.Preset, ...]
    links: schema.LinksFile
    tour: TourFile
    templates: Mapping[str, str]
    fact_values: Mapping[str, Mapping[str, Value]]
    image_values: Mapping[str, Mapping[str, Value]]
    model_defaults: Mapping[str, Mapping[str, Scalar]]
    flags: Mapping[str, FlagStatus] = field(default_factory=dict)
    _carries: dict[str, bool] = field(default_factory=dict, repr=False)

    @cached_property
    def by_name(self) -> dict[str, schema.ChoiceField]:
        """Every choice by its name."""
        return {choice.name: choice for choice in self.fields}

    @cached_property
    def user_text(self) -> frozenset[str]:
        """Names that can carry a text which a user typed: text choices, and derived values that read them."""
        found = {choice.name for choice in self.fields if choice.type == "text"} | {"before", "value"}
        for derived in self.derived:
            if derived.value.names() & found:
                found.add(derived.name)
        return frozenset(found)

    def carries_user_text(self, expression: Expression | None) -> bool:
        """True when a text that a user typed can reach the expression's value."""
        if expression is None:
            return False
        if expression.text not in self._carries:
            self._carries[expression.text] = bool(expression.names() & self.user_text)
        return self._carries[expression.text]

    def choices_of(self, expression: Expression) -> list[str]:
        """The choices that an expression reads, also through derived values, in the order of the choices."""
        names = set(expression.names())
        for derived in reversed(self.derived):
            if derived.name in names:
                names |= derived.value.names()
        return [choice.name for choice in self.fields if choice.name in names]

    def names(self, state: Mapping[str, Scalar], **extra: Value) -> dict[str, Value]:
        """Everything an expression may read under ``state``: choices, facts, derived values and ``extra``."""
        image = self.image_values[str(state["image"])]
        names: dict[str, Value] = {**state, **self.fact_values[str(state["model"])], **image, **extra}
        for derived in self.derived:
            names[derived.name] = derived.value.evaluate(names)
        return names
