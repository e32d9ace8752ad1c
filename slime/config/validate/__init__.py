"""Rules across flags: arithmetic on a derived configuration. Every ``check_*`` yields findings and changes nothing."""

from __future__ import annotations

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.rule import Rule
from slime.config.validate import (
    algorithm,
    batch_rules,
    checkpoints,
    files,
    fp8,
    lengths,
    modes,
    mtp,
    optimizer,
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
    *fp8.RULES,
    *pipeline.RULES,
    *batch_rules.RULES,
    *optimizer.RULES,
    *lengths.RULES,
    *algorithm.RULES,
    *routing.RULES,
    *services.RULES,
    *serving.RULES,
    *files.RULES,
    *checkpoints.RULES,
)


def validate(config: Config) -> list[Problem]:
    """All problems of a derived configuration, errors and warnings, in the order of ``RULES``."""
    return [problem for rule in RULES if rule.cfg is not None for problem in rule.problems("cfg", rule.cfg(config))]
