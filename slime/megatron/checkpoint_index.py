"""The index of a torch_dist checkpoint, ``.metadata``: a pickle, read without the power to run code."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

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
# A pickle is a program for a small machine: a damaged one fails in any of these ways.
DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _ForeignReferenceError(Exception):
    """The pickle asks for a class or function that no index needs."""


class _IndexUnpickler(pickle.Unpickler):
    """Makes objects of the classes in `SAFE_NAMES` alone."""

    def find_class(self, module: str, name: str) -> Any:
        """Every class and function that a pickle names is looked up here, before it is called."""
        if name not in SAFE_NAMES.get(module, ()):
            raise _ForeignReferenceError(f"{module}.{name}")
        return super().find_class(module, name)


def read_index(folder: Path) -> Metadata:
    """The index of the checkpoint `folder`: every tensor with its size and chunks, and where each chunk lies.

    torch's own reader unpickles this file without limits; call this first.

    Raises:
        CheckpointError: the file is missing, damaged, names a file outside `folder`, or refers to anything that could
            run code.
    """
    path = folder / METADATA_NAME
    if not path.is_file():
        raise CheckpointError(f"{folder} is not a torch_dist checkpoint: {METADATA_NAME} is missing.")
    try:
        with path.open("rb") as file:
            index = _IndexUnpickler(file).load()
        problem = next(_problems(index), None)
    except _ForeignReferenceError as error:
        raise CheckpointError(
            f"{path} refers to {error}, which no checkpoint index needs; loading it could run code. "
            "Do not use this checkpoint."
        ) from None
    except DAMAGE as error:
        raise CheckpointError(f"{path} is damaged: {first_line(error)}.") from error
    if problem:
        raise CheckpointError(f"{path} is damaged: {problem}.")
    result: Metadata = index
    return result


def first_line(error: Exception) -> str:
    """What the error says, in a line; torch adds advice that fits its own functions."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _problems(index: Any) -> Iterator[str]:
    """What keeps `index` from being one: a pickle can put any value in any place."""
    if not isinstance(index, Metadata):
        yield f"it holds a {type(index).__name__}, not an index"
        return
    if not isinstance(index.state_dict_metadata, dict) or not isinstance(index.storage_data, dict):
        yield "its tables are no dictionaries"
        return
    for name, one in index.state_dict_metadata.items():
        if not isinstance(name, str) or not isinstance(one, TensorStorageMetadata | BytesStorageMetadata):
            yield f"its entry {str(name)[:80]!r} is a {type(one).__name__}"
        elif isinstance(one, TensorStorageMetadata):
            yield from _tensor_problems(name, one)
    for key, place in index.storage_data.items():
        if not isinstance(key, MetadataIndex) or not isinstance(place, _StorageInfo):
            yield f"a place in its files is a {type(place).__name__}"
        elif not isinstance(place.relative_path, str) or Path(place.relative_path).name != place.relative_path:
            yield f"it points to {str(place.relative_path)[:80]!r}, and a checkpoint's files lie in its own folder"
        elif not _naturals((place.offset, place.length)):
            yield f"a part of {place.relative_path} has offset {place.offset!r} and length {place.length!r}"


def _tensor_problems(name: str, one: TensorStorageMetadata) -> Iterator[str]:
    if not isinstance(one.properties, TensorProperties) or not isinstance(one.properties.dtype, torch.dtype):
        yield f"{name} has no dtype"
    if not _naturals(one.size):
        yield f"{name} has size {str(one.size)[:80]}"
    elif not isinstance(one.chunks, list):
        yield f"{name} has no list of chunks"
    else:
        for chunk in one.chunks:
            if not (_naturals(chunk.offsets) and _naturals(chunk.sizes)):
                yield f"a chunk of {name} has no offsets and sizes"
            elif not len(chunk.offsets) == len(chunk.sizes) == len(one.size):
                yield f"a chunk of {name} has {len(chunk.offsets)} axes, and the tensor {len(one.size)}"


def _naturals(numbers: Any) -> bool:
    return isinstance(numbers, tuple) and all(type(number) is int and number >= 0 for number in numbers)
