"""Weights on their way from a trainer to engines through a folder that both see: a complete Hugging Face checkpoint.

Slower than shared memory, but it works wherever the two share a file system, and every version can be kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from slime.weights.delta import VersionNote
from slime.weights.folders import replaced_folder
from slime.weights.hf_io import copy_companions, write_shards
from slime.weights.local_checkpoint import NOTE_NAME
from slime.weights.served import ServedCheckpoint
from slime.weights.transport import NamedTensor


def version_folder(root: Path, version: int) -> Path:
    """Where version `version` lies below `root`: `weight_v000007` for 7."""
    return root / f"weight_v{version:06d}"


@contextmanager
def new_version(root: Path, note: VersionNote) -> Iterator[Path]:
    """Give the folder of a version to write into; it appears under its name, with `note`, when the body succeeds.

    Args:
        root: `--update-weight-disk-dir`. A folder that an earlier run left under the version's number is replaced.

    Raises:
        FolderError: something that no run wrote has the version's name.
    """
    with replaced_folder(version_folder(root, note.version), NOTE_NAME, force=True) as partial:
        yield partial
        (partial / NOTE_NAME).write_text(json.dumps(note.to_json()) + "\n", encoding="utf-8")


def write_version(root: Path, note: VersionNote, named: Iterable[NamedTensor], served: ServedCheckpoint) -> Path:
    """Write a version that is complete in itself; returns its folder.

    Args:
        root, note: see `new_version`.
        named: the tensors of an update, in the engines' format.
        served: where what surrounds the weights (config, tokenizer) and the tensors that are not trained come from.

    Raises:
        FolderError: see `new_version`.
    """
    with new_version(root, note) as partial:
        copy_companions(served.folder, partial)
        host = ((name, tensor.detach().cpu().contiguous()) for name, tensor in named)
        write_shards(partial, chain(host, served.carried()))
    return version_folder(root, note.version)


def remove_version(root: Path, version: int) -> None:
    """Remove a version's folder; harmless when it is gone."""
    shutil.rmtree(version_folder(root, version), ignore_errors=True)
