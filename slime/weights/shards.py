"""The shards of a Hugging Face checkpoint that is written piece by piece: their names, what each holds, which exist."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from slime.weights.hf_io import INDEX_NAME, SINGLE_NAME

if TYPE_CHECKING:
    from torch import Tensor


class Item(Protocol):
    """What is written together: tensors that are computed at once."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors."""

    @property
    def size(self) -> int:
        """Their bytes, about."""


AnyItem = TypeVar("AnyItem", bound=Item)


@dataclass(frozen=True)
class Shard(Generic[AnyItem]):
    """One file of the result."""

    name: str
    items: tuple[AnyItem, ...]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(item.size for item in self.items)

    def finished(self, folder: Path) -> bool:
        """True when `folder` holds this shard completely."""
        path = folder / self.name
        if not path.is_file():
            return False
        try:
            with safe_open(path, framework="pt") as found:  # compares the file's length with its header
                names = set(found.keys())
        except (SafetensorError, OSError):
            return False
        return names == {name for item in self.items for name in item.outputs}

    def write(self, folder: Path, tensors: Mapping[str, Tensor]) -> None:
        """Write ``folder/name``, which appears complete or not at all."""
        partial = folder / f".{self.name}.partial"
        save_file(dict(tensors), partial, metadata={"format": "pt"})
        partial.chmod(0o644)  # safetensors creates files that only their owner can read
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(folder / self.name)


def split_shards(items: Iterable[AnyItem], limit: int) -> tuple[Shard[AnyItem], ...]:
    """Shards of at most `limit` bytes, in the order of `items`; a larger item gets a shard of its own."""
    groups: list[list[AnyItem]] = [[]]
    size = 0
    for item in items:
        if groups[-1] and size + item.size > limit:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += item.size
    if len(groups) == 1:
        return (Shard(SINGLE_NAME, tuple(groups[0])),)
    names = [f"model-{number + 1:05d}-of-{len(groups):05d}.safetensors" for number in range(len(groups))]
    return tuple(Shard(name, tuple(group)) for name, group in zip(names, groups, strict=True))


def write_index(folder: Path, shards: Sequence[Shard[AnyItem]]) -> None:
    """The index of `shards`, which must be there; a single one needs none."""
    if len(shards) == 1:
        return
    weight_map, total = {}, 0
    for shard in shards:
        weight_map.update({name: shard.name for item in shard.items for name in item.outputs})
        size = (folder / shard.name).stat().st_size
        with (folder / shard.name).open("rb") as file:  # the header's length comes first
            total += size - 8 - int.from_bytes(file.read(8), "little")
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
