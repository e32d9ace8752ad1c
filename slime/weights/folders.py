"""Folders that appear complete or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FolderError(RuntimeError):
    """A folder cannot be written because something is there already; the message says what to do."""


@contextmanager
def replaced_folder(target: Path, force: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `target`; on success it becomes `target` in one rename, on failure it goes.

    Args:
        force: replace an existing `target`, which stays in place until the new one is complete.

    Raises:
        FolderError: `target` exists, is not empty, and `force` is off.
    """
    occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if occupied and not force:
        raise FolderError(f"{target} exists and is not empty; name another folder, or replace it with --force.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)  # mkdtemp gives 0700
        if occupied:
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
            target.replace(old / target.name)
            temporary.replace(target)
            shutil.rmtree(old)
        else:
            temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
