"""Distributed checkpoints in Megatron's torch_dist format, written so that a kill at any moment leaves a valid one.

Layout, as Megatron's own::

    <root>/latest_checkpointed_iteration.txt     "12", or "release" for converted weights without optimizer
    <root>/iter_0000012/                         torch_dist shards, common.pt, metadata.json, slime.json

A checkpoint is written into ``.iter_0000012.partial`` and renamed when it is complete; then the tracker file is
replaced. Readers follow the tracker alone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing, tensor_parallel
from megatron.core.dist_checkpointing import ShardedObject
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.validation import StrictHandling
from megatron.core.models.gpt import GPTModel
from megatron.core.optimizer import MegatronOptimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from torch.distributed.checkpoint.api import CheckpointException

from slime.megatron.checkpoint_format import DirectTorchDistSave, Provide
from slime.megatron.checkpoint_index import read_index
from slime.megatron.optimizer import has_stepped
from slime.weights.tracker import RELEASE, TRACKER_NAME, CheckpointError, checkpoint_folder

STATE_NAME = "slime.json"
FORMAT_VERSION = 1
# The optimizer's state as whole tensors, which any later parallel layout can read. Megatron's default layout,
# fully_sharded_model_space, cannot be loaded in 0.16.1 ("ShardedTensor.flattened_range is not supported").
OPTIMIZER_LAYOUT = {
    "distrib_optim_sharding_type": "fully_reshardable",
    "distrib_optim_fully_reshardable_mem_efficient": False,
    "chained_optim_avoid_prefix": True,
}


@dataclass(frozen=True)
class TrainState:
    """What a checkpoint holds besides the model: pass it to save, and to load for resuming."""

    optimizer: MegatronOptimizer
    scheduler: OptimizerParamScheduler


@dataclass(frozen=True)
class LoadedState:
    """What was loaded.

    Attributes:
        source: the folder that the weights came from.
        step: number of the checkpoint (the round that it was saved after); None for weights alone.
        data_cursor: what the caller passed to `save`, e.g. the data source's position; empty for weights alone.
        rng_restored: False when the checkpoint was written by another number of ranks: their random states fit none.
    """

    source: Path
    step: int | None = None
    data_cursor: dict[str, Any] = field(default_factory=dict)
    rng_restored: bool = False


def save_checkpoint(
    root: Path, step: int, model: GPTModel, state: TrainState, data_cursor: Mapping[str, Any] | None = None
) -> Path:
    """Write the checkpoint of `step`; every rank calls it. Earlier ones stay as they are.

    Args:
        root: folder shared by all ranks.
        data_cursor: JSON values, returned by `load_checkpoint`.

    Raises:
        CheckpointError: `data_cursor` is not JSON, or the folder cannot be written.
    """
    content: dict[str, Any] = {"model": model.sharded_state_dict()}
    # Rounds that train the critic alone may be saved before the policy's optimizer has a state.
    stepped = has_stepped(state.optimizer)
    if stepped:
        content["optimizer"] = state.optimizer.sharded_state_dict(content["model"], metadata=OPTIMIZER_LAYOUT)
    content["opt_param_scheduler"] = state.scheduler.state_dict()
    content["iteration"] = step
    content["rng_state"] = _rng_object(_rng_state())
    description = {"step": step, "data_cursor": dict(data_cursor or {}), "optimizer": stepped}
    return _write(root, f"iter_{step:07d}", str(step), content, description)


def save_release(root: Path, model: GPTModel, source: Mapping[str, Any], provide: Provide | None = None) -> Path:
    """Write the weights alone as ``release``; every rank calls it.

    Args:
        source: JSON values that say what the weights were made of; `read_description` returns them.
        provide: gives what each part of the model must hold when it is written; None = what it holds.

    Raises:
        CheckpointError: the folder cannot be written.
    """
    return _write(root, RELEASE, RELEASE, {"model": model.sharded_state_dict()}, {"source": dict(source)}, provide)


def _write(
    root: Path,
    name: str,
    tracker: str,
    content: dict[str, Any],
    description: dict[str, Any],
    provide: Provide | None = None,
) -> Path:
    final, partial = root / name, root / f".{name}.partial"
    values = {"format": FORMAT_VERSION, "world_size": dist.get_world_size(), **description}
    try:
        text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the data cursor is not JSON ({error}); nothing was written.") from error
    if dist.get_rank() == 0:
        _fresh_folder(partial)
    dist.barrier()
    dist_checkpointing.save(content, str(partial), sharded_strategy=DirectTorchDistSave(provide))
    dist.barrier()
    if dist.get_rank() == 0:
        (partial / STATE_NAME).write_text(text, encoding="utf-8")
        _publish(partial, final)
        _write_tracker(root, tracker)
    dist.barrier()
    return final


def load_checkpoint(root: Path, model: GPTModel, state: TrainState | None, step: int | None = None) -> LoadedState:
    """Read the checkpoint that the tracker of `root` names; every rank calls it.

    Args:
        step: read the checkpoint of this step instead of the latest.
        state: None loads the weights alone, also from a full checkpoint. ``release`` has nothing more.

    Raises:
        CheckpointError: no tracker, a missing or damaged folder, tensors that are missing or do not fit the model, or
            content that could run code when it is unpickled.
    """
    folder = checkpoint_folder(root, step)
    read_index(folder)  # torch reads it again, with the power to run code
    described = read_description(folder)
    if "step" not in described:
        state = None
    content: dict[str, Any] = {"model": model.sharded_state_dict()}
    same_ranks = described.get("world_size") == dist.get_world_size()
    stepped = bool(described.get("optimizer", True))
    if state is not None and stepped:
        content["optimizer"] = state.optimizer.sharded_state_dict(
            content["model"], is_loading=True, metadata=OPTIMIZER_LAYOUT
        )
    if state is not None and same_ranks:
        content["rng_state"] = _rng_object(None)
    loaded = _read_sharded(folder, content)
    model.load_state_dict(loaded["model"])
    if state is None:
        return LoadedState(source=folder)
    if stepped:
        state.optimizer.load_state_dict(loaded["optimizer"])
    state.scheduler.num_steps = 0  # load_state_dict adds to it
    state.scheduler.load_state_dict(loaded["opt_param_scheduler"])
    if same_ranks:
        _restore_rng(loaded["rng_state"])
    return LoadedState(folder, int(described["step"]), dict(described["data_cursor"]), same_ranks)


def _read_sharded(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    try:
        # Megatron calls missing what the checkpoint has and nobody asked for.
        loaded, surplus, missing = dist_checkpointing.load(content, str(folder), strict=StrictHandling.RETURN_ALL)
    except CheckpointException as error:
        # torch wraps what went wrong on each rank, with its traceback; the first cause says it.
        cause = next(iter(error.failures.values()))[0]
        raise CheckpointError(f"{folder} cannot be loaded into this model: {cause}.") from error
    except (CheckpointingException, RuntimeError, OSError, KeyError) as error:
        raise CheckpointError(f"{folder} cannot be loaded into this model: {error}.") from error
    # A run without the optimizer leaves its tensors unread.
    surplus = {key for key in surplus if "optimizer" in content or not key.startswith("optimizer.")}
    surplus = {key for key in surplus if not key.startswith(("rng_state", "optimizer.state.common_step"))}
    if missing or surplus:
        raise CheckpointError(
            f"{folder} holds another model: missing in the checkpoint {sorted(missing)[:8]}, not in the model "
            f"{sorted(surplus)[:8]}. It must come from the same --hf-checkpoint."
        )
    result: dict[str, Any] = loaded
    return result


def read_description(folder: Path) -> dict[str, Any]:
    """``slime.json`` of one checkpoint: format, world_size, and step with data_cursor, or source.

    Raises:
        CheckpointError: the file is damaged or of another format.
    """
    path = folder / STATE_NAME
    if not path.is_file():
        # Written by Megatron itself: the weights can be used, the rest belongs to its own loop.
        return {"format": FORMAT_VERSION, "world_size": None}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:  # not UTF-8 and not JSON are ValueErrors
        raise CheckpointError(f"{path} is damaged: {error}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is damaged: it holds a {type(values).__name__}, not an object.")
    if values.get("format") != FORMAT_VERSION:
        raise CheckpointError(f"{path} has format {values.get('format')!r}; this version reads {FORMAT_VERSION}.")
    result: dict[str, Any] = values
    if "step" in result and (type(result["step"]) is not int or not isinstance(result.get("data_cursor"), dict)):
        raise CheckpointError(
            f"{path} is damaged: step is {result['step']!r} and data_cursor a "
            f"{type(result.get('data_cursor')).__name__}; an integer and an object belong there."
        )
    return result


def _rng_object(value: Any) -> ShardedObject:
    return ShardedObject("rng_state", value, (dist.get_world_size(),), (dist.get_rank(),))


def _rng_state() -> dict[str, Any]:
    """Random states of this rank; plain lists and tensors, so that they load without unpickling objects."""
    version, numbers, gauss = random.getstate()
    return {
        "python": [version, list(numbers), gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "tracker": dict(tensor_parallel.get_cuda_rng_tracker().get_states()),
    }


def _restore_rng(state: Mapping[str, Any]) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    tensor_parallel.get_cuda_rng_tracker().set_states(dict(state["tracker"]))


def _fresh_folder(folder: Path) -> None:
    """An empty folder; what a killed save left there goes."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be created: {error}.") from error


def _publish(partial: Path, final: Path) -> None:
    if final.exists():
        # A save of this step was killed between its rename and its tracker, or the user went back to an earlier step.
        shutil.rmtree(final)
    partial.replace(final)
    _sync_folder(final.parent)


def _write_tracker(root: Path, text: str) -> None:
    temporary = root / f".{TRACKER_NAME}.partial"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(root / TRACKER_NAME)
    _sync_folder(root)


def _sync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
