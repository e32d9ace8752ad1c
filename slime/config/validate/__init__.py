"""Rules across flags. Every ``validate_*`` yields problems and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.validate import algorithm, batch, files, placement

RULES: tuple[Callable[[Config], Iterable[Problem]], ...] = (
    placement.validate_world,
    placement.validate_engines,
    placement.validate_modes,
    placement.validate_weight_transport,
    placement.validate_device,
    batch.validate_global_batch,
    batch.validate_steps,
    batch.validate_data_parallel,
    batch.validate_dynamic_batch,
    batch.validate_lengths,
    batch.validate_over_sampling,
    algorithm.validate_group_size,
    algorithm.validate_clip,
    algorithm.validate_corrections,
    algorithm.validate_sampling,
    algorithm.validate_kl,
    algorithm.validate_estimator,
    algorithm.validate_dropout,
    algorithm.validate_schedule,
    files.validate_initial_weights,
    files.validate_save,
    files.validate_outputs,
    files.validate_reward,
    files.validate_evaluation,
    files.validate_rounds,
    files.validate_dry_run,
)


def validate(config: Config) -> list[Problem]:
    """All problems of a derived configuration, errors and warnings, in the order of ``RULES``."""
    return [problem for rule in RULES for problem in rule(config)]
