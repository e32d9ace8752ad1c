"""What a folder of Megatron checkpoints is, from its indices alone; damage is described, not raised."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from slime.weights.tracker import RELEASE, TRACKER_NAME, CheckpointError, read_tracker


def is_megatron(folder: Path) -> bool:
    """True for a folder of checkpoints, and for one checkpoint."""
    return (folder / TRACKER_NAME).is_file() or (folder / ".metadata").is_file()


def describe_megatron(folder: Path) -> dict[str, Any]:
    """JSON values: what the tracker names, and every checkpoint with step, ranks, format, parameters and source."""
    if not (folder / TRACKER_NAME).is_file():
        one = _checkpoint(folder)
        return {
            "kind": "megatron",
            "path": str(folder),
            "latest": None,
            "checkpoints": [one],
            "problems": one["problems"],
        }
    problems: list[str] = []
    latest: int | str | None = None
    try:
        latest = read_tracker(folder)
    except CheckpointError as error:
        problems.append(str(error))
    found = [*sorted(folder.glob("iter_*")), *([folder / RELEASE] if (folder / RELEASE).is_dir() else [])]
    checkpoints = [_checkpoint(one) for one in found]
    name = RELEASE if latest == RELEASE else f"iter_{latest or 0:07d}"
    if latest is not None and name not in [one.name for one in found]:
        problems.append(f"the tracker names {name}, which is missing")
    problems += [f"{one['name']}: {problem}" for one in checkpoints for problem in one["problems"]]
    return {
        "kind": "megatron",
        "path": str(folder),
        "latest": latest,
        "checkpoints": checkpoints,
        "problems": problems,
    }


def _checkpoint(folder: Path) -> dict[str, Any]:
    from slime.megatron.checkpoint import read_description

    problems: list[str] = []
    described: dict[str, Any] = {}
    contents: dict[str, Any] = {}
    try:
        described = read_description(folder)
        contents = _contents(folder, problems)
    except CheckpointError as error:
        problems.append(str(error))
    return {
        "name": folder.name,
        "step": described.get("step"),
        "format": "torch_dist",
        "ranks": described.get("world_size"),
        "optimizer": bool(described.get("optimizer")),
        "source": described.get("source"),
        **contents,
        "problems": problems,
    }


def _contents(folder: Path, problems: list[str]) -> dict[str, Any]:
    """Tensors of the weights, as the index lists them, and whether the files have all that it points to."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    from slime.megatron.checkpoint_index import read_index

    index = read_index(folder)
    weights = {
        name: one
        for name, one in index.state_dict_metadata.items()
        if isinstance(one, TensorStorageMetadata) and not name.startswith("optimizer.")
    }
    elements = Counter[str]()
    for one in weights.values():
        elements[str(one.properties.dtype).removeprefix("torch.")] += math.prod(one.size)
    ends: dict[str, int] = {}
    for place in index.storage_data.values():
        name = place.relative_path
        ends[name] = max(ends.get(name, 0), place.offset + place.length)
    for name, end in sorted(ends.items()):
        path = folder / name
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif path.stat().st_size < end:
            problems.append(f"{name} is cut off: {path.stat().st_size} of at least {end} bytes")
    return {
        "parameters": sum(elements.values()),
        "tensors": len(weights),
        "elements": dict(elements),
        "files": len(ends),
        "bytes": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
    }
