"""What tells one set of weights from another, without reading them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any


def fingerprint(folder: Path) -> dict[str, Any]:
    """Of a Hugging Face checkpoint: config.json by content, shards by size and time of change; JSON values.

    Not by content: hashing a terabyte takes longer than converting it.
    """
    shards = sorted(folder.glob("*.safetensors"))
    return {
        "config_sha256": hashlib.sha256((folder / "config.json").read_bytes()).hexdigest(),
        "shards": {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in shards},
    }
