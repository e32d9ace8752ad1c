"""The files of a folder of checkpoints: a new one becomes visible when it is whole, and old ones go.

At every moment the tracker names a whole checkpoint: a new one is written under a name that begins with a dot and
renamed when it is complete, then the tracker is replaced; an old one is renamed to such a name before it is deleted.
What a killed process left under these names is cleared by the next save.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from slime.weights.tracker import TRACKER_NAME, step_folder, step_of

PARTIAL = ".partial"
DELETED = ".deleted"


def partial_folder(root: Path, name: str) -> Path:
    """Where the checkpoint `name` of `root` is written."""
    return root / f".{name}{PARTIAL}"


def fresh_folder(folder: Path) -> None:
    """An empty folder; what a killed save left there goes.

    Raises:
        OSError: the file system refuses.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def publish(root: Path, name: str, tracker: str) -> None:
    """Make the checkpoint `name`, which is complete, the latest: rename its folder, then replace the tracker.

    Raises:
        OSError: the file system refuses.
    """
    final = root / name
    if final.exists():
        # A save of this step was killed between its rename and its tracker, or the user went back to an earlier step.
        _delete(final)
    partial_folder(root, name).replace(final)
    _sync_folder(root)
    _write_tracker(root, tracker)


def prune(root: Path, step: int, keep: int) -> None:
    """Delete checkpoints of `root` before `step`, so that `keep` are left together with it.

    Those of later steps stay: the user went back to an earlier one, and may want them. So do converted weights.

    Raises:
        OSError: the file system refuses.
    """
    if not root.is_dir():
        return
    for path in root.iterdir():
        if path.name.startswith(".") and path.name.endswith(DELETED):
            shutil.rmtree(path)
    earlier = sorted(found for path in root.iterdir() if (found := step_of(path)) is not None and found < step)
    for old in earlier[: max(len(earlier) - (keep - 1), 0)]:
        _delete(step_folder(root, old))


def _delete(folder: Path) -> None:
    """A folder that is deleted in part must not look whole."""
    doomed = folder.with_name(f".{folder.name}{DELETED}")
    shutil.rmtree(doomed, ignore_errors=True)
    folder.replace(doomed)
    shutil.rmtree(doomed)


def _write_tracker(root: Path, text: str) -> None:
    temporary = root / f".{TRACKER_NAME}{PARTIAL}"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(root / TRACKER_NAME)
    _sync_folder(root)


def _sync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
