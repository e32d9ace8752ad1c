"""Distributed checkpoints in Megatron's torch_dist format, written so that a kill at any moment leaves a valid one.

Layout, as Megatron's own::

    <root>/latest_checkpointed_iteration.txt     "12", or "release" for converted weights without optimizer
    <root>/iter_0000012/                         torch_dist shards, common.pt, metadata.json, slime.json

Readers follow the tracker alone; how it moves stands in `slime.megatron.checkpoint_files`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.validation import StrictHandling
from megatron.core.models.gpt import GPTModel
from megatron.core.optimizer import MegatronOptimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from torch.distributed.checkpoint.api import CheckpointException

from slime.megatron import checkpoint_random
from slime.megatron.checkpoint_format import Provide
from slime.megatron.checkpoint_index import read_index
from slime.megatron.checkpoint_writer import STATE_NAME, CheckpointWriter, Draft
from slime.megatron.optimizer_state import has_stepped, load_state, state_to_load, state_to_save
from slime.weights.tracker import RELEASE, CheckpointError, checkpoint_folder, step_folder

FORMAT_VERSION = 1


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
        rng_restored: whether the random states are those of this rank; False when another layout wrote the checkpoint,
            see `checkpoint_random.restore`.
    """

    source: Path
    step: int | None = None
    data_cursor: dict[str, Any] = field(default_factory=dict)
    rng_restored: bool = False


def save_checkpoint(
    root: Path,
    step: int,
    model: GPTModel,
    state: TrainState,
    data_cursor: Mapping[str, Any] | None = None,
    writer: CheckpointWriter | None = None,
    optimizer: bool = True,
) -> Path:
    """Write the checkpoint of `step`; every rank calls it. Earlier ones stay as they are.

    Args:
        root: folder shared by all ranks.
        data_cursor: JSON values, returned by `load_checkpoint`.
        writer: says when; None = now.
        optimizer: with the optimizer's state and the schedule's.

    Raises:
        CheckpointError: `data_cursor` is not JSON, or the folder cannot be written.
    """
    content: dict[str, Any] = {"model": model.sharded_state_dict()}
    # Rounds that train the critic alone may be saved before the policy's optimizer has a state.
    stepped = optimizer and has_stepped(state.optimizer)
    if stepped:
        content["optimizer"] = state_to_save(state.optimizer, content["model"])
    if optimizer:
        content["opt_param_scheduler"] = state.scheduler.state_dict()
    content["iteration"] = step
    content["rng_state"] = checkpoint_random.states_to_save()
    description = {
        "step": step,
        "data_cursor": dict(data_cursor or {}),
        "optimizer": stepped,
        "no_save_optim": not optimizer,
        "distributed_optimizer": state.optimizer.config.use_distributed_optimizer,
    }
    draft = Draft(root, step_folder(root, step).name, str(step), content, _described(description))
    return (writer or CheckpointWriter()).write(draft)


def save_release(
    root: Path,
    model: GPTModel,
    source: Mapping[str, Any],
    provide: Provide | None = None,
    writer: CheckpointWriter | None = None,
) -> Path:
    """Write the weights alone as ``release``; every rank calls it.

    Args:
        source: JSON values that say what the weights were made of; `read_description` returns them.
        provide: gives what each part of the model must hold when it is written; None = what it holds.
        writer: says when; None = now.

    Raises:
        CheckpointError: the folder cannot be written.
    """
    content = {"model": model.sharded_state_dict()}
    draft = Draft(root, RELEASE, RELEASE, content, _described({"source": dict(source)}), provide)
    return (writer or CheckpointWriter()).write(draft)


def _described(description: dict[str, Any]) -> str:
    """The text of ``slime.json``."""
    values = {"format": FORMAT_VERSION, "world_size": dist.get_world_size(), "layout": _layout(), **description}
    try:
        return json.dumps(values, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the data cursor is not JSON ({error}); nothing was written.") from error


def _layout() -> dict[str, int]:
    """Sizes of the parallel groups, by which a rank finds its own random state again."""
    return {
        "tensor": parallel_state.get_tensor_model_parallel_world_size(),
        "pipeline": parallel_state.get_pipeline_model_parallel_world_size(),
        "context": parallel_state.get_context_parallel_world_size(),
        "expert": parallel_state.get_expert_model_parallel_world_size(),
        "expert_tensor": parallel_state.get_expert_tensor_parallel_world_size(),
    }


def load_checkpoint(
    root: Path,
    model: GPTModel,
    state: TrainState | None,
    step: int | None = None,
    optimizer: bool = True,
    random_state: bool = True,
) -> LoadedState:
    """Read the checkpoint that the tracker of `root` names; every rank calls it.

    Args:
        step: read the checkpoint of this step instead of the latest.
        state: None loads the weights alone, also from a full checkpoint. ``release`` has nothing more.
        optimizer: with the optimizer's state and the schedule's; otherwise both begin anew.
        random_state: continue the random states; otherwise they stay as the seed made them.

    Raises:
        CheckpointError: no tracker, a missing or damaged folder, tensors that are missing or do not fit the model, an
            optimizer's state that is not there or another optimizer's, or content that could run code when it is
            unpickled.
    """
    folder = checkpoint_folder(root, step)
    _check_index(folder, model)
    described = read_description(folder)
    whole = state if "step" in described else None
    content: dict[str, Any] = {"model": model.sharded_state_dict()}
    same_layout = (described.get("world_size"), described.get("layout")) == (dist.get_world_size(), _layout())
    stepped = optimizer and bool(described.get("optimizer", True))
    if whole is not None:
        if optimizer:
            _check_same_optimizer(folder, described, whole)
        if stepped:
            content["optimizer"] = state_to_load(whole.optimizer, content["model"])
        if random_state:
            content["rng_state"] = checkpoint_random.states_to_load(int(described["world_size"]), same_layout)
    loaded = _read_sharded(folder, content)
    model.load_state_dict(loaded["model"])
    if state is not None and (whole is None or not stepped):
        state.optimizer.reload_model_params()  # its float32 weights are those that the model had before
    if whole is None:
        return LoadedState(source=folder)
    if stepped:
        load_state(whole.optimizer, loaded["optimizer"])
    if optimizer:
        whole.scheduler.num_steps = 0  # load_state_dict adds to it
        whole.scheduler.load_state_dict(loaded["opt_param_scheduler"])
    if random_state:
        checkpoint_random.restore(loaded["rng_state"])
    return LoadedState(folder, int(described["step"]), dict(described["data_cursor"]), random_state and same_layout)


def _check_index(folder: Path, model: GPTModel) -> None:
    """torch reads the index again, with the power to run code."""
    index = read_index(folder)
    if model.config.mtp_num_layers and not any(name.startswith("mtp.") for name in index.state_dict_metadata):
        raise CheckpointError(
            f"{folder} has no MTP layers, and --mtp-num-layers is {model.config.mtp_num_layers}; convert it again with "
            "`slime convert hf-to-megatron --mtp-num-layers`."
        )


def _check_same_optimizer(folder: Path, described: Mapping[str, Any], state: TrainState) -> None:
    """It is there; and Megatron gives the moments of its two optimizers different names in a checkpoint."""
    if described.get("no_save_optim", False):
        raise CheckpointError(
            f"{folder} was saved with --no-save-optim, so it has no state of an optimizer: give --no-load-optim to go "
            "on with a new one, or --finetune to start at round 0 with these weights."
        )
    if not described.get("optimizer", True):
        return
    saved = bool(described.get("distributed_optimizer", False))
    if saved != state.optimizer.config.use_distributed_optimizer:
        flag = "--use-distributed-optimizer"
        raise CheckpointError(
            f"{folder} was saved {'with' if saved else 'without'} {flag}, and its optimizer's state can be resumed "
            f"{'with' if saved else 'without'} it alone: {'give' if saved else 'leave out'} {flag}, or start from the "
            f"weights alone with --ref-load {folder.parent}."
        )


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
    # A run that does not train MTP layers leaves theirs unread.
    unread = ("rng_state", "optimizer.state.common_step", "mtp.")
    surplus = {key for key in surplus if not key.startswith(unread)}
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
    kinds = {"step": int, "world_size": int, "data_cursor": dict}
    wrong = [name for name, kind in kinds.items() if "step" in result and type(result.get(name)) is not kind]
    if wrong:
        name, kind = wrong[0], kinds[wrong[0]].__name__
        raise CheckpointError(f"{path} is damaged: {name} is {str(result.get(name))[:40]!r}, which is no {kind}.")
    return result
