"""``--dry-run``: what a run would do, as data, without a GPU and without starting anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slime.config.config import REGISTRY, Config
from slime.config.errors import ConfigError, Problem
from slime.config.flags import Flag
from slime.config.layout import Device, devices, processes
from slime.config.validate import validate
from slime.config.values import ValueProblem, from_texts

SCHEMA = 2


def dry_run(
    config: Config, planned: Sequence[Problem] = (), recipe: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The resolved configuration, processes, devices and derived numbers of a run, JSON-ready.

    Args:
        config: the resolved configuration.
        planned: what it asks for that the runtime does not run yet.
        recipe: flags with their words as the recipe of ``--recipe`` has them, for the origins.

    Returns:
        ``configuration`` maps each flag to ``{"value", "origin"}``, where the origin is ``default``, ``derived``,
        ``command line`` or ``FILE:LINE``, the last two with ``, as in recipe ID`` where the recipe has the same;
        ``processes`` lists kinds with their count and GPUs each; ``devices`` has one entry a GPU (on a CPU: a process
        slot) with its node, the train rank with its coordinates, and the engine; ``derived`` holds numbers;
        ``planned`` what is not run yet; ``warnings`` what is legal but odd.

    Raises:
        ConfigError: the groups of engines do not add up.
    """
    return {
        "schema": SCHEMA,
        "configuration": {
            one.name: {"value": _plain(getattr(config, one.field)), "origin": _origin(config, one, recipe or {})}
            for one in REGISTRY.values()
        },
        "processes": [asdict(item) for item in processes(config)],
        "devices": [device_entry(item) for item in devices(config)],
        "derived": derived_numbers(config),
        "planned": [problem.message for problem in planned],
        "warnings": [str(problem) for problem in validate(config) if problem.severity == "warning"],
    }


def _origin(config: Config, one: Flag, recipe: Mapping[str, Sequence[str]]) -> str:
    origin = config.origins.get(one.field, "default")
    if origin in ("default", "derived") or one.name not in recipe:
        return origin
    try:
        same = from_texts(one, recipe[one.name] or ["true"]) == getattr(config, one.field)
    except ValueProblem:  # a path, which the recipe leaves to the shell
        same = False
    return f"{origin}, as in recipe {config.recipe}" if same else origin


def device_entry(item: Device) -> dict[str, Any]:
    """One device as flat data: ``train_rank`` and the four coordinates are None where nothing trains."""
    train = asdict(item.train) if item.train else dict.fromkeys(("rank", *COORDINATES))
    return {
        "device": item.device,
        "node": item.node,
        "gpu": item.gpu,
        "train_rank": train["rank"],
        **{f"{name}_rank": train[name] for name in COORDINATES},
        "engine": item.engine,
        "engine_rank": item.engine_rank,
        "engine_kind": item.kind,
    }


COORDINATES = ("tensor", "context", "data", "pipeline", "expert")


def derived_numbers(config: Config) -> dict[str, Any]:
    """Parallel and batch arithmetic. Samples and tokens unless the name says otherwise."""
    per_rank = config.global_batch_size // config.data_parallel_size
    low, high = micro_batches(config, per_rank)
    placed = devices(config)
    return {
        "train_gpus": config.train_gpus,
        "rollout_gpus": config.rollout_num_gpus,
        "total_gpus": len(placed),
        "nodes": max(item.node for item in placed) + 1,
        "engines": len({item.engine for item in placed} - {None}),
        "model_parallel_size": config.model_parallel_size,
        "data_parallel_size": config.data_parallel_size,
        "samples_per_rollout": config.samples_per_rollout,
        "steps_per_rollout": config.steps_per_rollout,
        "dropped_samples_per_rollout": config.samples_per_rollout - config.steps_per_rollout * config.global_batch_size,
        "samples_per_step_and_rank": per_rank,
        "micro_batches_per_step_and_rank": {"least": low, "most": high},
        "train_iters": config.train_iters,
        "total_samples": config.num_rollout * config.samples_per_rollout,
        "evaluations": _evaluations(config),
        "saves": _saves(config),
    }


def micro_batches(config: Config, per_rank: int) -> tuple[int, int]:
    """The least and the most micro-batches of a rank in one step; equal when their size is fixed.

    Dynamic micro-batches depend on the lengths. First-fit never leaves two bins that would fit into one, so it makes
    at most one bin more than twice the tokens over the capacity. Interleaved stages take whole groups.
    """
    group = config.micro_batch_group
    if not config.use_dynamic_batch_size:
        count = _multiple(-(-per_rank // config.micro_batch_size), group)
        return count, count
    longest = config.rollout_max_context_len
    if longest is None or config.max_tokens_per_gpu is None:
        return group, _multiple(per_rank, group)
    capacity = config.max_tokens_per_gpu * config.context_parallel_size
    return group, _multiple(min(per_rank, 2 * per_rank * longest // capacity + 1), group)


def _multiple(count: int, of: int) -> int:
    return -(-count // of) * of


def _evaluations(config: Config) -> int:
    if config.eval_interval is None:
        return 0
    # The last round is always evaluated, also when the interval does not end there.
    return -(-config.num_rollout // config.eval_interval) + (0 if config.skip_eval_before_train else 1)


def _saves(config: Config) -> int:
    if not config.save:
        return 0
    # The last round is always saved, also without an interval.
    return 1 if config.save_interval is None else -(-config.num_rollout // config.save_interval)


def write_dry_run(document: Mapping[str, Any], path: str) -> None:
    """Write a dry run as JSON. Raises ConfigError when the file cannot be written, or is something else."""
    try:
        if Path(path).exists() and not _is_dry_run(Path(path)):
            raise ConfigError(f"--dry-run-json {path} exists and is no earlier dry run; name another file")
        Path(path).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--dry-run-json {path} cannot be written: {error.strerror}") from None


def _is_dry_run(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"schema", "configuration", "derived"} <= set(found)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
