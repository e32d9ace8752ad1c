"""All rules in one place: those with a number in its order, then the project's own; and one message of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from slime.config.preflight import (
    chosen_layers,
    cluster,
    declared,
    dimensions,
    disk,
    division_rules,
    exported,
    grading,
    hooks,
    memory,
    network,
    network_rules,
    prompts,
    routing,
    start,
    tokens,
    turns,
    versions,
    weights,
)
from slime.config.rule import InputCheck, Rule
from slime.config.validate import RULES as FLAG_RULES

# Rules of the flags that look at the checkpoint or the machine as well.
_FURTHER: Mapping[str, Mapping[str, InputCheck]] = {
    "fp8-training": {"hf": chosen_layers.check_fp8_layers},
    "lengths": {"hf": tokens.check_positions},
    "mtp-layers": {"hf": chosen_layers.check_mtp_layers},
    "routing-replay": {"hf": routing.check_experts},
    "saved-weights": {"host": exported.check_target},
    "sampler-probability": {"host": network.check_raw_logprobs},
}


def _ordered(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: (rule.row is None, rule.row or 0)))


def _with_further_levels(rule: Rule) -> Rule:
    further = _FURTHER.get(rule.id, {})
    return replace(rule, hf=further.get("hf", rule.hf), host=further.get("host", rule.host))


RULES: tuple[Rule, ...] = _ordered(
    (
        *(_with_further_levels(rule) for rule in FLAG_RULES),
        *dimensions.RULES,
        *division_rules.RULES,
        *weights.RULES,
        *tokens.RULES,
        *turns.RULES,
        *prompts.RULES,
        *grading.RULES,
        *hooks.RULES,
        *start.RULES,
        *memory.RULES,
        *disk.RULES,
        *network_rules.RULES,
        *cluster.RULES,
        *versions.RULES,
        *declared.RULES,
    )
)

EXAMPLES = Path(__file__).with_name("examples.json")
"""Made from the cases of the tests, which compare it with what the rules say."""


class Example(TypedDict):
    """What a rule said of something that it refuses."""

    level: str
    severity: str
    message: str
    hint: str


def load_examples() -> dict[str, Example]:
    """Rule id -> its example, for the reference page; a rule without checks has none."""
    found: dict[str, Example] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return found
