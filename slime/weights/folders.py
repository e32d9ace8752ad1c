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
def replaced_folder(target: Path, marker: str, force: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `target`; on success it becomes `target` in one rename, on failure it goes.

    Args:
        marker: name of a file that is in every folder that this caller made, and in no other.
        force: replace an existing `target` that has the marker. It stays in place until the new one is complete.

    Raises:
        FolderError: `target` is a file, or a folder that is neither empty nor an earlier result that may be replaced.
    """
    target = target.resolve()  # a name such as `.` or a symbolic link cannot be renamed, the folder behind it can
    if target.exists() and not target.is_dir():
        raise FolderError(f"{target} is a file; name a folder.")
    occupied = target.is_dir() and any(target.iterdir())
    if occupied and not (target / marker).is_file():
        raise FolderError(
            f"{target} exists, is not empty, and was not made by this command ({marker} is missing); name another "
            "folder. Not even --force replaces it."
        )
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
