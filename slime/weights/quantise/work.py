"""One shard of a conversion: read, compute, write. Runs in worker processes; memory holds one shard of the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from slime.weights.quantise.formats import Format, QuantiseError
from slime.weights.quantise.plan import Item
from slime.weights.shards import Shard


def set_threads(count: int) -> None:
    """Share the cores among workers."""
    torch.set_num_threads(count)


def write_shard(shard: Shard[Item], target: Format, folder: Path, device: str) -> str:
    """Write the shard into `folder`, where it appears complete or not at all; returns its name.

    Raises:
        QuantiseError: a tensor is damaged or holds NaN or infinity.
    """
    reader = _Reader()
    tensors: dict[str, Tensor] = {}
    try:
        for item in shard.items:
            tensors |= _converted(item, reader, target, torch.device(device))
    finally:
        reader.close()
    shard.write(folder, tensors)
    return shard.name


class _Reader:
    """Tensors by shard and name; the shard that was read last stays open."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._open: Any = None

    def read(self, path: Path, name: str) -> Tensor:
        if path != self._path:
            self.close()
            self._open = safe_open(path, framework="pt").__enter__()
            self._path = path
        tensor: Tensor = self._open.get_tensor(name)
        return tensor

    def close(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._path = self._open = None


def _converted(item: Item, reader: _Reader, target: Format, device: torch.device) -> dict[str, Tensor]:
    try:
        sources = [reader.read(*source) for source in item.sources]
    except (SafetensorError, OSError) as error:
        raise QuantiseError(f"{item.sources[0][0]}: {item.module} cannot be read: {error}.") from error
    if item.action == "copy":
        _refuse_non_finite(item.module, sources[0])
        return {item.module: sources[0]}
    sources = [source.to(device) for source in sources]
    if item.action == "quantise":
        _refuse_non_finite(f"{item.module}.weight", sources[0])
        parts = target.quantise(sources[0])
        return {f"{item.module}.{name}": part.cpu().contiguous() for name, part in parts.items()}
    named = dict(zip(target.part_names, sources, strict=True))
    try:
        weight = target.dequantise(named, torch.bfloat16)
    except QuantiseError as error:
        raise QuantiseError(f"{item.module}: {error}.") from error
    _refuse_non_finite(f"{item.module}.weight", weight)
    return {f"{item.module}.weight": weight.cpu()}


def _refuse_non_finite(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point() or tensor.element_size() == 1 or not tensor.numel():
        return
    extremes = torch.stack(torch.aminmax(tensor))  # NaN wins over every number; no copy of the tensor is made
    if not bool(torch.isfinite(extremes).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise QuantiseError(
            f"{name} {list(tensor.shape)} holds {bad} value(s) that are NaN or infinite; no scale fits them, and the "
            "checkpoint they come from is damaged."
        )
