"""Reading and writing Hugging Face checkpoints: safetensors shards, their index, and the files around them."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from slime.weights.tracker import TRACKER_NAME

if TYPE_CHECKING:
    from torch import Tensor

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
DEFAULT_SHARD_BYTES = 5 * 2**30
ELEMENT_BYTES = {
    "BF16": 2, "F16": 2, "F32": 4, "F64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Dtypes as safetensors names them -> bytes of an element."""


class HFCheckpointError(ValueError):
    """A checkpoint folder is incomplete or unreadable, or cannot be written; the message names the file."""


class HFCheckpoint:
    """The weights of one checkpoint folder. Opening it checks that every shard is there; tensors are read on demand.

    Attributes:
        shapes: name -> shape of every tensor.
        dtypes: name -> dtype of every tensor, as safetensors names it (``BF16``, ``F8_E4M3`` ...).
        file_of: name -> the shard that holds it.
    """

    def __init__(self, folder: Path) -> None:
        """Read the index and the headers of the shards.

        Raises:
            HFCheckpointError: no weights, a shard that the index names is missing or damaged, or the index and the
                shards disagree.
        """
        self.folder = folder
        files, indexed = self._listed_files()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, str] = {}
        self.file_of: dict[str, Path] = {}
        for file in files:
            self._read_header(file)
        if indexed is not None and indexed != set(self.shapes):
            missing, surplus = sorted(indexed - set(self.shapes)), sorted(set(self.shapes) - indexed)
            raise HFCheckpointError(
                f"{folder / INDEX_NAME} and the shards disagree: in the index alone {missing[:8]}, "
                f"in the shards alone {surplus[:8]}."
            )

    def _listed_files(self) -> tuple[list[Path], set[str] | None]:
        index = self.folder / INDEX_NAME
        single = self.folder / SINGLE_NAME
        if not index.is_file():
            if single.is_file():
                return [single], None
            raise HFCheckpointError(f"{self.folder} holds neither {SINGLE_NAME} nor {INDEX_NAME}; it has no weights.")
        try:
            weight_map: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            names = sorted(set(weight_map.values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HFCheckpointError(f"{index} is not an index of shards: {error!r}.") from error
        if not all(isinstance(name, str) for name in names):
            raise HFCheckpointError(f"{index} is not an index of shards: {names[0]!r} is no name of a file.")
        outside = [name for name in names if Path(name).name != name]
        if outside:
            raise HFCheckpointError(f"{index} names {outside[0]!r}; a shard lies in the folder itself.")
        absent = [name for name in names if not (self.folder / name).is_file()]
        if absent:
            raise HFCheckpointError(
                f"{self.folder}: {len(absent)} of {len(names)} shards are missing: {', '.join(absent[:8])}. "
                "The download is not complete."
            )
        return [self.folder / name for name in names], set(weight_map)

    def _read_header(self, file: Path) -> None:
        try:
            with safe_open(file, framework="pt") as shard:
                names: list[str] = shard.keys()
                for name in names:
                    tensor = shard.get_slice(name)
                    self.shapes[name] = tuple(tensor.get_shape())
                    self.dtypes[name] = str(tensor.get_dtype())
                    self.file_of[name] = file
        except (SafetensorError, OSError) as error:
            raise HFCheckpointError(f"{file} is damaged or cut off: {error}. Fetch it again.") from error

    def read(self, name: str) -> Tensor:
        """One tensor by its Hugging Face name, on the CPU. Raises KeyError for a name that is not there."""
        with safe_open(self.file_of[name], framework="pt") as shard:
            tensor: Tensor = shard.get_tensor(name)
        return tensor

    def size(self, name: str) -> int:
        """Bytes of one tensor."""
        return math.prod(self.shapes[name]) * ELEMENT_BYTES.get(self.dtypes[name], 8)


def copy_companions(source: Path, target: Path) -> list[str]:
    """Copy what surrounds the weights (config, tokenizer, chat template ...); returns the names.

    Weights, their index, Megatron's tracker, subfolders and hidden files stay behind.
    """
    copied = []
    for path in sorted(source.iterdir()):
        weights = path.suffix in {".safetensors", ".bin", ".pt", ".gguf"} or path.name.endswith(".index.json")
        weights = weights or path.name == TRACKER_NAME  # it would make the copy look like a checkpoint of Megatron's
        if path.is_file() and not weights and not path.name.startswith("."):
            shutil.copy2(path, target / path.name)
            copied.append(path.name)
    return copied


def write_shards(
    folder: Path, tensors: Iterable[tuple[str, Tensor]], shard_bytes: int = DEFAULT_SHARD_BYTES
) -> list[Path]:
    """Write `tensors` as safetensors: one file when they fit into `shard_bytes`, else numbered shards and an index.

    At most one shard is held in memory.

    Returns:
        The files written.
    """
    parts: list[Path] = []
    weight_map: dict[str, int] = {}
    pending: dict[str, Tensor] = {}
    size = total = 0

    def flush() -> None:
        nonlocal pending, size
        path = folder / f"part-{len(parts):05d}.safetensors"
        save_file(pending, path, metadata={"format": "pt"})
        path.chmod(0o644)  # safetensors creates files that only their owner can read
        weight_map.update(dict.fromkeys(pending, len(parts)))
        parts.append(path)
        pending, size = {}, 0

    for name, tensor in tensors:
        count = tensor.numel() * tensor.element_size()
        if pending and size + count > shard_bytes:
            flush()
        pending[name] = tensor
        size, total = size + count, total + count
    flush()
    return _name_shards(folder, parts, weight_map, total)


def _name_shards(folder: Path, parts: list[Path], weight_map: dict[str, int], total: int) -> list[Path]:
    if len(parts) == 1:
        return [parts[0].rename(folder / SINGLE_NAME)]
    names = [f"model-{number + 1:05d}-of-{len(parts):05d}.safetensors" for number in range(len(parts))]
    files = [part.rename(folder / name) for part, name in zip(parts, names, strict=True)]
    index = {
        "metadata": {"total_size": total},
        "weight_map": {name: names[part] for name, part in sorted(weight_map.items())},
    }
    (folder / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return files
