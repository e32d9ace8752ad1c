"""What a conversion writes: every shard with its tensors, known from the headers before anything is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slime.weights.hf_io import HFCheckpoint
from slime.weights.quantise.formats import Format, Fp8Format, QuantiseError
from slime.weights.quantise.scope import FLOATS, Scope, listed
from slime.weights.shards import Shard, split_shards

SHARD_BYTES = 2**30
"""A shard is written when it has about this many bytes; it is what a worker holds in memory."""
DROPPED = (".input_scale",)
"""Scales of activations: nothing of a bfloat16 checkpoint."""
Action = Literal["copy", "quantise", "dequantise"]


@dataclass(frozen=True)
class Item:
    """One weight.

    Attributes:
        module: prefix of the names of its parts, or the tensor's name when it is copied.
        sources: (shard, tensor) of what is read.
        outputs: names of the tensors that are written.
        size: their bytes, about.
    """

    action: Action
    module: str
    sources: tuple[tuple[Path, str], ...]
    outputs: tuple[str, ...]
    size: int


@dataclass(frozen=True)
class Plan:
    """A whole conversion.

    Attributes:
        target: the format that is written, or read when weights are turned back.
        config: what becomes of ``quantization_config``; None removes it.
    """

    target: Format
    shards: tuple[Shard[Item], ...]
    config: dict[str, Any] | None

    def count(self, action: Action) -> int:
        """How many weights undergo `action`."""
        return sum(item.action == action for shard in self.shards for item in shard.items)


def plan_quantise(checkpoint: HFCheckpoint, target: Format, ignore: Sequence[str] = ()) -> Plan:
    """Quantise `checkpoint`.

    Raises:
        QuantiseError: a weight has a shape that the format cannot hold, or nothing is left to quantise.
    """
    scope = Scope(checkpoint.shapes, checkpoint.dtypes, target, ignore)
    chosen = [name for name in checkpoint.shapes if scope.quantised(name)]
    if not chosen:
        raise QuantiseError(f"{checkpoint.folder}: no weight is left to quantise.")
    problems = {name: target.problem(checkpoint.shapes[name]) for name in chosen}
    bad = [f"{name}: {problem}" for name, problem in problems.items() if problem]
    if bad:
        raise QuantiseError(f"{len(bad)} of {len(chosen)} weights do not fit {target}. " + "; ".join(bad[:4]) + ".")

    def item(name: str) -> Item:
        if not scope.quantised(name):
            return _copy(checkpoint, name)
        module = name.removesuffix(".weight")
        outputs = tuple(f"{module}.{part}" for part in target.part_names)
        size = target.size(checkpoint.shapes[name], FLOATS[checkpoint.dtypes[name]])
        return Item("quantise", module, ((checkpoint.file_of[name], name),), outputs, size)

    return Plan(target, split_shards(map(item, checkpoint.shapes), SHARD_BYTES), target.config(scope.kept_modules()))


def plan_dequantise(checkpoint: HFCheckpoint, source: Format) -> Plan:
    """Turn `checkpoint`, which is in the format `source`, into bfloat16.

    Raises:
        QuantiseError: parts of a weight are missing, or nothing is quantised.
    """
    modules = _quantised_modules(checkpoint, source)
    parts = {f"{module}.{part}" for module in modules for part in source.part_names}
    absent = parts - set(checkpoint.shapes)
    if absent or not modules:
        found = f"without the other parts of the weight: {listed(absent)}" if absent else "no weight in that format"
        raise QuantiseError(f"{checkpoint.folder}: config.json says {source}, but there is {found}.")
    items: list[Item] = []
    for name in checkpoint.shapes:
        module = name.removesuffix(f".{source.part_names[0]}")
        if module in modules and module != name:
            items.append(_dequantise(checkpoint, module, source))
        elif name not in parts and not name.endswith(DROPPED):
            items.append(_copy(checkpoint, name))
    return Plan(source, split_shards(items, SHARD_BYTES), None)


def _quantised_modules(checkpoint: HFCheckpoint, source: Format) -> set[str]:
    first = f".{source.part_names[0]}"
    named = {name.removesuffix(first) for name in checkpoint.shapes if name.endswith(first)}
    if isinstance(source, Fp8Format):
        return {module for module in named if checkpoint.dtypes[module + first].startswith("F8")}
    return named


def _dequantise(checkpoint: HFCheckpoint, module: str, source: Format) -> Item:
    names = [f"{module}.{part}" for part in source.part_names]
    elements = math.prod(checkpoint.shapes[names[0]]) * (1 if isinstance(source, Fp8Format) else 8)
    sources = tuple((checkpoint.file_of[name], name) for name in names)
    return Item("dequantise", module, sources, (f"{module}.weight",), 2 * elements)


def _copy(checkpoint: HFCheckpoint, name: str) -> Item:
    return Item("copy", name, ((checkpoint.file_of[name], name),), (name,), checkpoint.size(name))
