"""Paths of a run: which flags have one, and making them absolute."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from slime.config.config import Config

# Folders that the trainer, the engine or another host opens. Their current directory is not that of the launcher, and
# an engine takes a relative name that it does not find for a model on the Hugging Face Hub.
SHARED_FOLDERS = ("hf_checkpoint", "ref_load", "load", "save", "update_weight_disk_dir")
# Files and folders that the launcher alone opens.
OWN_PATHS = ("metrics_file", "tensorboard_dir", "dry_run_json")


def with_absolute_paths(config: Config) -> Config:
    """The configuration for other processes: every path in it means the same file wherever it is opened."""
    given = {name: getattr(config, name) for name in SHARED_FOLDERS}
    values: dict[str, Any] = {name: str(Path(path).absolute()) for name, path in given.items() if path}
    return dataclasses.replace(config, **values)


def prompt_path(spec: str) -> str:
    """The file of ``path@[a:b]``."""
    return spec.rsplit("@[", 1)[0] if spec.endswith("]") else spec
