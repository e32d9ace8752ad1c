"""The random states of a checkpoint: each rank's own, and which of them a run at another layout continues."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import tensor_parallel
from megatron.core.dist_checkpointing import ShardedObject

KEY = "rng_state"


def states_to_save() -> ShardedObject:
    """The states of this rank; plain lists and tensors, so that they load without unpickling objects."""
    version, numbers, gauss = random.getstate()
    state = {
        "python": [version, list(numbers), gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "tracker": dict(tensor_parallel.get_cuda_rng_tracker().get_states()),
    }
    return ShardedObject(KEY, state, (dist.get_world_size(),), (dist.get_rank(),))


def states_to_load(saved_ranks: int, same_layout: bool) -> ShardedObject | list[ShardedObject]:
    """What to ask the checkpoint for: the state of this rank, or those of all ranks that saved.

    Megatron lets no run read a part of a saved list alone, so a rank of another layout reads all of it.
    """
    if same_layout:
        return ShardedObject(KEY, None, (saved_ranks,), (dist.get_rank(),))
    return [ShardedObject(KEY, None, (saved_ranks,), (i,), replica_id=dist.get_rank()) for i in range(saved_ranks)]


def restore(loaded: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
    """Continue the states that were loaded.

    At another layout the generators that all ranks have alike continue from the first rank's. Megatron's own streams
    for each part of a cut model stay as the seed made them: the parts are others now.
    """
    state = loaded[0] if isinstance(loaded, list) else loaded
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    if not isinstance(loaded, list):
        tensor_parallel.get_cuda_rng_tracker().set_states(dict(state["tracker"]))
