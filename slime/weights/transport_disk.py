"""Weights on their way from a trainer to an engine through a folder that both see: a complete Hugging Face checkpoint.

Slower than shared memory, but it works wherever the two share a file system, and every version can be kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from slime.weights.folders import replaced_folder
from slime.weights.hf_io import copy_companions, write_shards
from slime.weights.transport import NamedTensor

MARKER_NAME = ".slime-version.json"
"""In every version's folder; one without it is not replaced."""


def version_folder(root: Path, version: int) -> Path:
    """Where version `version` lies below `root`: `weight_v000007` for 7."""
    return root / f"weight_v{version:06d}"


def write_version(root: Path, version: int, named: Iterable[NamedTensor], hf_checkpoint: Path) -> Path:
    """Write one version. Its folder appears under its name only when it is complete.

    Args:
        root: `--update-weight-disk-dir`.
        version: the weight version; a folder that an earlier run left under this number is replaced.
        named: all tensors of the model, in Hugging Face names and layout.
        hf_checkpoint: where the files around the weights (config, tokenizer) are copied from.

    Returns:
        The folder.

    Raises:
        FolderError: something that no run wrote has the version's name.
    """
    folder = version_folder(root, version)
    with replaced_folder(folder, MARKER_NAME, force=True) as partial:
        copy_companions(hf_checkpoint, partial)
        write_shards(partial, ((name, tensor.detach().cpu().contiguous()) for name, tensor in named))
        (partial / MARKER_NAME).write_text(json.dumps({"version": version}) + "\n", encoding="utf-8")
    return folder


def remove_version(root: Path, version: int) -> None:
    """Remove a version's folder; harmless when it is gone."""
    shutil.rmtree(version_folder(root, version), ignore_errors=True)
