"""Headers of safetensors files: names, kinds and shapes of the tensors, and the bytes that a file should have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slime.config.preflight.json_files import read_json

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_MAX_HEADER = 100 * 1024 * 1024  # the limit of the safetensors format itself


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a header: its kind (``BF16``, ``F8_E4M3``, ...) and its shape."""

    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Shard:
    """One safetensors file: its tensors, and the bytes that header and data should have."""

    tensors: Mapping[str, TensorEntry]
    size: int


@dataclass(frozen=True)
class Shards:
    """The weights of a folder.

    Attributes:
        expected: file name -> the tensors that the index places there; nothing for a single file without an index.
        read: file name -> its header, where it can be read.
        errors: file name -> why its header cannot be read.
        index_error: why the index cannot be used, or that there are no weights at all.
    """

    expected: Mapping[str, frozenset[str]]
    read: Mapping[str, Shard]
    errors: Mapping[str, str]
    index_error: str = ""

    @property
    def tensors(self) -> dict[str, TensorEntry]:
        """All tensors by name."""
        return {name: entry for shard in self.read.values() for name, entry in shard.tensors.items()}


def read_shard(path: Path) -> Shard:
    """Read a shard's header, not its tensors. Raises ValueError with the reason, OSError when it cannot be opened."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= _MAX_HEADER:
            raise ValueError(f"the header claims {length} bytes: this is no safetensors file")
        text = file.read(length)
    if len(text) < length:
        raise ValueError(f"the header has {len(text)} of its {length} bytes")
    try:
        header = json.loads(text)
        tensors = {name: _entry(entry) for name, entry in header.items() if name != "__metadata__"}
        end = max((int(header[name]["data_offsets"][1]) for name in tensors), default=0)
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError):
        raise ValueError("the header is not that of a safetensors file") from None
    return Shard(tensors, 8 + length + end)


def _entry(entry: Mapping[str, Any]) -> TensorEntry:
    return TensorEntry(str(entry["dtype"]), tuple(int(size) for size in entry["shape"]))


def read_shards(folder: Path) -> Shards | None:
    """Read every header of a folder; None when the folder is missing."""
    if not folder.is_dir():
        return None
    index = folder / INDEX
    if not index.is_file():
        if not (folder / SINGLE).is_file():
            return Shards({}, {}, {}, f"{folder}: neither {SINGLE} nor {INDEX}")
        expected: dict[str, frozenset[str]] = {SINGLE: frozenset()}
    else:
        try:
            expected = _names_by_shard(read_json(index))
        except ValueError as error:
            return Shards({}, {}, {}, f"{index}: {error}")
    read: dict[str, Shard] = {}
    errors: dict[str, str] = {}
    for name in sorted(expected):
        try:
            read[name] = read_shard(folder / name)
        except FileNotFoundError:
            continue  # missing files are counted together
        except OSError as error:
            errors[name] = f"cannot be read: {error.strerror}"
        except ValueError as error:
            errors[name] = str(error)
    return Shards(expected, read, errors)


def _names_by_shard(index: dict[str, Any]) -> dict[str, frozenset[str]]:
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise ValueError("it has no weight_map")
    shards: dict[str, set[str]] = {}
    for tensor, file in mapping.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise ValueError(f"weight_map[{tensor!r}] is {file!r}, not the name of a file beside the index")
        shards.setdefault(file, set()).add(tensor)
    return {file: frozenset(tensors) for file, tensors in shards.items()}


def checkpoint_bytes(folder: Path) -> int:
    """Bytes of all safetensors files in a folder; 0 when there are none or the folder is missing."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors") if path.is_file())


def checkpoint_elements(shards: Shards | None) -> int:
    """Numbers in all tensors, as the headers say; 0 without weights."""
    total = 0
    for entry in (shards.tensors if shards else {}).values():
        size = 1
        for one in entry.shape:
            size *= one
        total += size
    return total
