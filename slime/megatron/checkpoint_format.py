"""The torch_dist format: writing it inside this process, and checking it before anything is unpickled."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path

import torch.distributed.checkpoint as torch_checkpoint
from megatron.core.dist_checkpointing.mapping import ShardedStateDict
from megatron.core.dist_checkpointing.strategies.base import SaveShardedStrategy
from megatron.core.dist_checkpointing.strategies.torch import (
    MCoreSavePlanner,
    _replace_state_dict_keys_with_sharded_keys,
    mcore_to_pyt_state_dict,
)
from torch import Tensor
from torch.distributed.checkpoint.planner import WriteItem

from slime.weights.tracker import CheckpointError

METADATA_NAME = ".metadata"
# What `.metadata` is made of, by module. Everything else, `os.system` for example, is refused.
SAFE_NAMES: dict[str, set[str]] = {
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    # Megatron's own writer stores its plans too.
    "torch.distributed.checkpoint.planner": {"SavePlan", "TensorWriteData", "WriteItem", "WriteItemType"},
    "torch": {"Size", "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath"},
    "pathlib._local": {"PosixPath"},
}


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
    """Writes the same files as Megatron's own strategy, with torch's writer in this process.

    Megatron's forks a process for each file and starts a manager process by re-importing the main program. Inside a Ray
    actor with running threads a fork may hang; without psutil its writers vanish and leave a folder that cannot be
    loaded; and it takes seconds for a small model.
    """

    def __init__(self, provide: Provide | None = None) -> None:
        """`provide` gives what a tensor of the state must hold, when it is written; None = what it holds."""
        super().__init__("torch_dist", 1)
        self._provide = provide

    def save(self, sharded_state_dict: ShardedStateDict, checkpoint_dir: str | Path) -> None:
        """Write this rank's shards; called by ``dist_checkpointing.save`` on every rank."""
        renamed, _, _ = _replace_state_dict_keys_with_sharded_keys(sharded_state_dict, True)
        torch_checkpoint.save(
            mcore_to_pyt_state_dict(renamed, False),
            storage_writer=torch_checkpoint.FileSystemWriter(checkpoint_dir),
            planner=_Planner(self._provide),
        )

    @property
    def can_handle_sharded_objects(self) -> bool:
        """Random states are written with the tensors."""
        return True


def check_metadata(folder: Path) -> None:
    """Refuse a checkpoint whose pickled index could run code.

    torch reads ``.metadata`` with `pickle`. This walks its opcodes first, without executing them, and lets through only
    references to the classes that torch and Megatron put there. (Tensors and `common.pt` are read with
    ``torch.load(weights_only=True)``.)

    Raises:
        CheckpointError: the file is missing, damaged, or refers to anything else.
    """
    path = folder / METADATA_NAME
    if not path.is_file():
        raise CheckpointError(f"{folder} is not a torch_dist checkpoint: {METADATA_NAME} is missing.")
    try:
        references = _references(path.read_bytes())
    except (ValueError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path} is damaged: {error}.") from error
    for module, name in references:
        if name not in SAFE_NAMES.get(module, set()):
            raise CheckpointError(
                f"{path} refers to {module}.{name}, which no checkpoint index needs; loading it could run code. "
                "Do not use this checkpoint."
            )


def _references(data: bytes) -> list[tuple[str, str]]:
    """(module, name) of every class or function that unpickling `data` would look up.

    STACK_GLOBAL takes its two names from the stack. They must be the two strings pushed last, directly or through the
    memo, as every pickler writes them; anything else is refused.
    """
    found: list[tuple[str, str]] = []
    memo: dict[int, str | None] = {}
    recent: list[str | None] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in {"GLOBAL", "INST"}:
            module, _, name = str(argument).partition(" ")
            found.append((module, name))
        elif opcode.name == "STACK_GLOBAL":
            if len(recent) < 2 or recent[-1] is None or recent[-2] is None:
                raise ValueError("a reference is not made of two strings")
            found.append((recent[-2], recent[-1]))
        elif opcode.name.startswith("EXT"):
            raise ValueError("it uses the extension registry")
        if opcode.name in {"MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT"}:
            key = len(memo) if opcode.name == "MEMOIZE" else int(str(argument))
            memo[key] = recent[-1] if recent else None
        elif opcode.name in {"BINGET", "LONG_BINGET", "GET"}:
            recent.append(memo.get(int(str(argument))))
        elif isinstance(argument, str) and "UNICODE" in opcode.name:
            recent.append(argument)
        elif opcode.name not in {"PROTO", "FRAME"}:
            recent.append(None)
    return found
