"""What tells one set of weights from another, without reading them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def fingerprint(folder: Path) -> dict[str, Any]:
    """Of a Hugging Face checkpoint: config.json by content, shards by size and time of change; JSON values.

    Not by content: hashing a terabyte takes longer than converting it.
    """
    return {
        "config_sha256": hashlib.sha256((folder / "config.json").read_bytes()).hexdigest(),
        "shards": _stamps(folder.glob("*.safetensors")),
    }


def megatron_fingerprint(folder: Path) -> dict[str, list[int]]:
    """Of one Megatron checkpoint: its files by size and time of change; JSON values."""
    return _stamps(path for path in folder.iterdir() if path.is_file())


def _stamps(paths: Iterable[Path]) -> dict[str, list[int]]:
    return {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in sorted(paths)}
