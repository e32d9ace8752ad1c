"""Rules across flags: arithmetic on a derived configuration. Every ``check_*`` yields findings and changes nothing."""

from __future__ import annotations

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.rule import Rule
from slime.config.validate import (
    algorithm,
    batch_rules,
    files,
    fp8,
    lengths,
    modes,
    mtp,
    pipeline,
    placement,
    routing,
    services,
    serving,
)

RULES: tuple[Rule, ...] = (
    *placement.RULES,
    *modes.RULES,
    *mtp.RULES,
    *pipeline.RULES,
    *fp8.RULES,
    *batch_rules.RULES,
    *lengths.RULES,
    *algorithm.RULES,
    *routing.RULES,
    *services.RULES,
    *serving.RULES,
    *files.RULES,
)


def validate(config: Config) -> list[Problem]:
    """All problems of a derived configuration, errors and warnings, in the order of ``RULES``."""
    return [problem for rule in RULES if rule.cfg is not None for problem in rule.problems("cfg", rule.cfg(config))]
