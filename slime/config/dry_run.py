"""``--dry-run``: what a run would do, as data and as text, without a GPU and without starting anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slime.config.config import GROUP_TITLES, REGISTRY, Config
from slime.config.errors import ConfigError
from slime.config.flags import Flag, value_text
from slime.config.validate import validate


def dry_run(config: Config) -> dict[str, Any]:
    """The resolved configuration, processes, devices and derived numbers of a run, JSON-ready.

    ``configuration`` maps each flag to ``{"value", "origin"}``; ``processes`` lists kinds with their count and GPUs
    each; ``devices`` has one entry a GPU (on a CPU: a process slot) with the train rank and the engine on it;
    ``derived`` holds numbers; ``warnings`` what is legal but odd.
    """
    return {
        "schema": 1,
        "configuration": {
            one.name: {"value": _plain(getattr(config, one.field)), "origin": config.origins.get(one.field, "default")}
            for one in REGISTRY.values()
        },
        "processes": processes(config),
        "devices": devices(config),
        "derived": derived_numbers(config),
        "warnings": [str(problem) for problem in validate(config) if problem.severity == "warning"],
    }


def processes(config: Config) -> list[dict[str, Any]]:
    """Kinds of processes, how many of each, GPUs of each. On a CPU a GPU stands for a process slot."""
    found: list[dict[str, Any]] = [
        {"process": "driver", "count": 1, "gpus": 0},
        {"process": "trainer", "count": config.train_gpus, "gpus": 1},
    ]
    if config.num_engines:
        found.append({"process": "engine", "count": config.num_engines, "gpus": config.rollout_num_gpus_per_engine})
    return found


def devices(config: Config) -> list[dict[str, Any]]:
    """One entry a device: its number, its train rank or None, its engine or None.

    Colocated, engines share the devices of the trainer from device 0 on; otherwise they follow after them.
    """
    offset = 0 if config.colocate else config.train_gpus
    total = max(config.train_gpus, offset + config.rollout_num_gpus)
    found = []
    for device in range(total):
        slot = device - offset
        serves = 0 <= slot < config.rollout_num_gpus
        found.append(
            {
                "device": device,
                "train_rank": device if device < config.train_gpus else None,
                "engine": slot // config.rollout_num_gpus_per_engine if serves else None,
            }
        )
    return found


def derived_numbers(config: Config) -> dict[str, Any]:
    """Parallel and batch arithmetic. Samples and tokens unless the name says otherwise."""
    per_rank = config.global_batch_size // config.data_parallel_size
    low, high = micro_batches(config, per_rank)
    return {
        "train_gpus": config.train_gpus,
        "rollout_gpus": config.rollout_num_gpus,
        "total_gpus": len(devices(config)),
        "engines": config.num_engines,
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
    at most one bin more than twice the tokens over the capacity.
    """
    if not config.use_dynamic_batch_size:
        count = -(-per_rank // config.micro_batch_size)
        return count, count
    longest = config.rollout_max_context_len
    if longest is None or config.max_tokens_per_gpu is None:
        return 1, per_rank
    capacity = config.max_tokens_per_gpu * config.context_parallel_size
    return 1, min(per_rank, 2 * per_rank * longest // capacity + 1)


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


def render_dry_run(config: Config) -> str:
    """The dry run as text for a terminal."""
    data = dry_run(config)
    lines = ["resolved configuration (what is not listed keeps its default):"]
    for group, flags in REGISTRY.groups().items():
        shown = [one for one in flags if one.field in config.origins]
        if shown:
            lines.append(f"  {GROUP_TITLES[group].en}")
            lines.extend(f"    {_setting(config, one)}" for one in shown)
    lines.append("processes:")
    for item in data["processes"]:
        noun = "process slot" if config.device == "cpu" else "GPU"
        share = f", {item['gpus']} {noun}{'s' if item['gpus'] > 1 else ''} each" if item["gpus"] else ""
        lines.append(f"    {item['count']} x {item['process']}{share}")
    lines.append("devices:")
    lines.extend(f"    {text}" for text in _device_lines(data["devices"]))
    lines.append("derived:")
    for name, value in data["derived"].items():
        text = f"{value['least']} to {value['most']}" if isinstance(value, dict) else str(value)
        lines.append(f"    {name.replace('_', ' ')}: {text}")
    lines.extend(f"warning: {text}" for text in data["warnings"])
    return "\n".join(lines)


def write_dry_run(config: Config, path: str) -> None:
    """Write the dry run as JSON. Raises ConfigError when the file cannot be written, or is something else."""
    try:
        if Path(path).exists() and not _is_dry_run(Path(path)):
            raise ConfigError(f"--dry-run-json {path} exists and is no earlier dry run; name another file")
        Path(path).write_text(json.dumps(dry_run(config), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--dry-run-json {path} cannot be written: {error.strerror}") from None


def _is_dry_run(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"schema", "configuration", "derived"} <= found.keys()


def _setting(config: Config, one: Flag) -> str:
    value = getattr(config, one.field)
    text = " ".join(value_text(item) for item in value) if isinstance(value, tuple) else value_text(value)
    return f"{one.name} {text}    ({config.origins[one.field]})"


def _device_lines(entries: list[dict[str, Any]]) -> list[str]:
    """Neighbouring devices with the same engine become one line: ``0-7: train ranks 0-7, engine 0``."""
    runs: list[list[dict[str, Any]]] = []
    for entry in entries:
        last = runs[-1][-1] if runs else None
        alike = last is not None and (last["engine"], last["train_rank"] is None) == (
            entry["engine"],
            entry["train_rank"] is None,
        )
        if alike:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return [f"{_span(run, 'device')}: {_use(run)}" for run in runs]


def _use(run: list[dict[str, Any]]) -> str:
    parts = [] if run[0]["train_rank"] is None else [f"train rank {_span(run, 'train_rank')}"]
    if run[0]["engine"] is not None:
        parts.append(f"engine {run[0]['engine']}")
    return ", ".join(parts) or "idle"


def _span(run: list[dict[str, Any]], key: str) -> str:
    first, last = run[0][key], run[-1][key]
    return str(first) if first == last else f"{first}-{last}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
