"""Spawned processes import the cases by name; the families' checkpoints are those of the trainer's tests."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "megatron"):
    sys.path.insert(0, str(folder))
