"""The torch_dist format, written inside this process."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist
import torch.distributed.checkpoint as torch_checkpoint
from megatron.core.dist_checkpointing.mapping import ShardedStateDict, ShardedTensor
from megatron.core.dist_checkpointing.strategies.base import SaveShardedStrategy
from megatron.core.dist_checkpointing.strategies.torch import (
    MCoreSavePlanner,
    _replace_state_dict_keys_with_sharded_keys,
    mcore_to_pyt_state_dict,
)
from torch import Tensor
from torch.distributed.checkpoint.planner import WriteItem

Provide = Callable[[Tensor], Tensor]


class _Planner(MCoreSavePlanner):
    """Lets the caller read each tensor when its turn comes."""

    def __init__(self, provide: Provide | None) -> None:
        super().__init__(dedup_replicated_tensors=False, flatten_state_dict=False)
        self._provide = provide

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        found: Tensor | io.BytesIO = super().resolve_data(write_item)
        return found if self._provide is None or isinstance(found, io.BytesIO) else self._provide(found)


class DirectTorchDistSave(SaveShardedStrategy):
    """Writes the same files as Megatron's own strategy, with torch's writer in this process, when `write` is called.

    Megatron's forks a process for each file and starts a manager process by re-importing the main program. Inside a Ray
    actor with running threads a fork may hang; without psutil its writers vanish and leave a folder that cannot be
    loaded; and it takes seconds for a small model.
    """

    def __init__(self, provide: Provide | None = None, copy: bool = False) -> None:
        """
        Args:
            provide: gives what a tensor of the state must hold, when it is written; None = what it holds.
            copy: keep this moment's values in host memory; the model may then change before they are written.
        """
        super().__init__("torch_dist", 1)
        self._provide, self._copy = provide, copy

    def save(self, sharded_state_dict: ShardedStateDict, checkpoint_dir: str | Path) -> None:
        """Take this rank's shards; called by ``dist_checkpointing.save`` on every rank."""
        renamed, _, _ = _replace_state_dict_keys_with_sharded_keys(sharded_state_dict, True)
        if self._copy:
            for one in (one for parts in renamed.values() for one in parts if isinstance(one, ShardedTensor)):
                one.data = one.data.detach().to("cpu", copy=True)
        self._state, self._folder = mcore_to_pyt_state_dict(renamed, False), checkpoint_dir

    def write(self, group: dist.ProcessGroup | None = None) -> None:
        """Write the shards. Every rank of `group` (None = all) calls it; the first returns when all have written.

        Raises:
            CheckpointException: on every rank, when one cannot write.
        """
        torch_checkpoint.save(
            self._state,
            storage_writer=torch_checkpoint.FileSystemWriter(self._folder),
            planner=_Planner(self._provide),
            process_group=group,
        )

    @property
    def can_handle_sharded_objects(self) -> bool:
        """Random states are written with the tensors."""
        return True
