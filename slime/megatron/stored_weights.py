"""Weights of a torch_dist checkpoint, read one by one: memory holds a parameter, whatever the size of the model."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import ShardedTensor, apply_factories
from megatron.core.models.gpt import GPTModel
from torch import Tensor
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from slime.megatron.checkpoint_index import DAMAGE, first_line, read_index
from slime.megatron.model import model_tensors
from slime.weights.tracker import CheckpointError

OPTIMIZER = "optimizer."
"""What the names of the optimizer's tensors begin with, which stand beside the weights."""


class StoredWeights:
    """Gives every parameter of a model whose own tensors were never set; see `slime.megatron.streaming.HFWeights`.

    Args:
        folder: one checkpoint, written at any parallel layout.
        model: says what the checkpoint must hold, and under which names. Nothing of it is read or set.

    Raises:
        CheckpointError: the checkpoint is damaged, or one of another model.
    """

    def __init__(self, folder: Path, model: GPTModel) -> None:
        self._folder = folder
        index = read_index(folder)
        self._stored = {
            name: one
            for name, one in index.state_dict_metadata.items()
            if isinstance(one, TensorStorageMetadata) and not name.startswith(OPTIMIZER)
        }
        self._reader = FileSystemReader(folder)
        self._reader.set_up_storage_reader(index, is_coordinator=True)
        self._parameters = model_tensors(model)
        self._parts = _parts(model, self._parameters)
        self._refuse_another_model()

    def size(self, name: str) -> int:
        """Bytes of the parameter `name`."""
        parameter = self._parameters[name]
        size: int = parameter.numel() * parameter.element_size()
        return size

    def read(self, name: str) -> Tensor:
        """The whole parameter `name`, in the dtype of the model, on the CPU.

        Raises:
            CheckpointError: a file is missing, cut off or damaged.
        """
        parameter = self._parameters[name]
        whole = torch.empty(parameter.shape, dtype=parameter.dtype)
        for part in self._parts[name]:
            place = part.data.storage_offset() - parameter.storage_offset()
            view = whole.as_strided(part.data.shape, part.data.stride(), place)
            self._fill(part, view[(None,) * part.prepend_axis_num])
        return whole

    def _fill(self, part: ShardedTensor, target: Tensor) -> None:
        chunk = ChunkStorageMetadata(torch.Size(part.global_offset), target.shape)
        items = create_read_items_for_chunk_list(part.key, self._stored[part.key], [chunk])
        covered = sum(math.prod(item.lengths) for item in items)
        if covered != target.numel():
            raise CheckpointError(
                f"{self._folder}: the index has {covered} of {target.numel()} elements of {part.key} at "
                f"{list(part.global_offset)}; the checkpoint is incomplete."
            )
        try:
            self._reader.read_data(LoadPlan(items), _Into(target))
        except (OSError, AssertionError, *DAMAGE) as error:
            raise CheckpointError(f"{self._folder}: {part.key} cannot be read: {first_line(error)}.") from error

    def _refuse_another_model(self) -> None:
        expected = {part.key: part for parts in self._parts.values() for part in parts}
        missing, surplus = sorted(expected.keys() - self._stored), sorted(self._stored.keys() - expected)
        problems = [f"missing in the checkpoint: {missing[:8]}"] if missing else []
        problems += [f"not in the model: {surplus[:8]}"] if surplus else []
        for key, part in expected.items():
            size = tuple(self._stored[key].size) if key in self._stored else tuple(part.global_shape)
            if size != tuple(part.global_shape) and not (part.allow_shape_mismatch and _padded(size, part)):
                problems.append(f"{key} has shape {list(size)} instead of {list(part.global_shape)}")
        if problems:
            shown = "; ".join(problems[:8]) + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")
            raise CheckpointError(
                f"{self._folder} holds another model: {shown}. It must come from the same --hf-checkpoint."
            )


class _Into(DefaultLoadPlanner):
    """Puts what is read into one tensor."""

    def __init__(self, target: Tensor) -> None:
        super().__init__()
        self._target = target

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        return self._target


def _parts(model: GPTModel, parameters: dict[str, Tensor]) -> dict[str, list[ShardedTensor]]:
    """For every parameter the parts under which a checkpoint stores it; each is a view of the parameter."""
    name_of = {tensor.untyped_storage().data_ptr(): name for name, tensor in parameters.items()}
    state = model.sharded_state_dict()
    apply_factories(state)
    parts: dict[str, list[ShardedTensor]] = {name: [] for name in parameters}
    for one in nested_values(state):
        if isinstance(one, ShardedTensor):
            parts[name_of[one.data.untyped_storage().data_ptr()]].append(one)
    return parts


def _padded(size: tuple[int, ...], part: ShardedTensor) -> bool:
    """A vocabulary has rows of padding behind it, which depend on the layout that wrote it."""
    return len(size) == len(part.global_shape) and size[0] >= part.global_shape[0] and size[1:] == part.global_shape[1:]
