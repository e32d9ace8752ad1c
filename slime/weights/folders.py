"""Folders that appear complete or not at all."""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARKER_NAME = ".slime-convert.json"
"""In every Hugging Face checkpoint that `slime convert` made; says what it was made from."""

ROUND_MARKER_NAME = ".slime-save-hf.json"
"""In every folder that --save-hf wrote; says after which round."""
ROUND = "{rollout_id}"


def folder_of_round(path: str, round_id: int) -> Path:
    """Where --save-hf puts the weights after a round; a path without `ROUND` has those of the last save alone."""
    return Path(path.replace(ROUND, str(round_id)))


class FolderError(RuntimeError):
    """A folder cannot be written because something is there already; the message says what to do."""


@contextmanager
def replaced_folder(target: Path, marker: str, force: bool = False, stage: str | None = None) -> Iterator[Path]:
    """Give a temporary folder beside `target`, which becomes `target` in one rename when the body succeeds.

    Args:
        marker: name of a file that is in every folder that this caller made, and in no other.
        force: replace an existing `target` that has the marker. It stays in place until the new one is complete.
        stage: name of the temporary folder, which then stays after a failure, and is given again with what it holds.
            Without it the folder is a new one, and goes.

    Raises:
        FolderError: see `check_replaceable`.
    """
    target = target.resolve()  # a name such as `.` or a symbolic link cannot be renamed, the folder behind it can
    occupied = check_replaceable(target, marker, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(target, stage)
    try:
        yield temporary
        temporary.chmod(0o755)  # mkdtemp gives 0700
        if occupied:
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
            target.replace(old / target.name)
            temporary.replace(target)
            _remove_replaced(target, marker)
        else:
            temporary.replace(target)
    finally:
        if stage is None:
            shutil.rmtree(temporary, ignore_errors=True)


def staged_folder(target: Path, stage: str) -> Path:
    """The temporary folder of `replaced_folder` with a name."""
    target = target.resolve()
    return target.parent / f".{target.name}.{stage}.partial"


def check_replaceable(target: Path, marker: str, force: bool) -> bool:
    """True when `target` holds an earlier result, which may be replaced; False when nothing is there.

    Raises:
        FolderError: `target` is a file, or a folder that is neither empty nor an earlier result that may be replaced.
    """
    if target.exists() and not target.is_dir():
        raise FolderError(f"{target} is a file; name a folder.")
    occupied = target.is_dir() and any(target.iterdir())
    if occupied and not (target / marker).is_file():
        raise FolderError(
            f"{target} exists, is not empty, and was not made by this command ({marker} is missing), so nothing "
            "replaces it; name another folder."
        )
    if occupied and not force:
        raise FolderError(f"{target} exists and is not empty; name another folder, or replace it with --force.")
    return occupied


def _temporary(target: Path, stage: str | None) -> Path:
    if stage is None:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    folder = staged_folder(target, stage)
    folder.mkdir(exist_ok=True)
    return folder


def _remove_replaced(target: Path, marker: str) -> None:
    """The earlier results, also one that a kill between the two renames left behind."""
    for old in target.parent.glob(f".{glob.escape(target.name)}.*.old"):
        if (old / target.name / marker).is_file():
            shutil.rmtree(old)


def refuse_overlap(save: Path, name: str, source: Path, flag: str = "--save") -> None:
    """Replacing `save` must not take away anything that is read, `source`, which the flag `name` gave.

    Args:
        flag: that gave `save`.

    Raises:
        FolderError: the two are one, or one lies in the other.
    """
    target, read = save.resolve(), source.resolve()
    if target == read:
        raise FolderError(f"{flag} and {name} are the same folder, {save}; name a folder of its own with {flag}.")
    if target.is_relative_to(read):
        raise FolderError(f"{flag} {save} lies inside {name} {source}; name a folder outside it.")
    if read.is_relative_to(target):
        raise FolderError(f"{flag} {save} contains {name} {source}, which would be replaced; name another folder.")
