"""A conversion that may be interrupted at any moment: shards appear beside the result, which gets its name whole."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slime.weights.folders import MARKER_NAME, FolderError, check_replaceable, replaced_folder, staged_folder
from slime.weights.shards import AnyItem, Shard

LOCK_NAME = ".lock"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """Where one conversion writes.

    Attributes:
        save: the result.
        kind: of the conversion; part of the name of the folder beside `save` where an interrupted one goes on.
        made: what the result is made of and how, as JSON values. Shards of an earlier attempt stay when it is the same.
        force: replace an earlier result of any conversion.
    """

    save: Path
    kind: str
    made: dict[str, Any]
    force: bool

    @property
    def folder(self) -> Path:
        """Where the shards are written."""
        return staged_folder(self.save, self.kind)

    def done(self, shards: Sequence[Shard[AnyItem]]) -> bool:
        """True when `save` is this conversion's result, with all of its shards.

        Raises:
            FolderError: it is something else, and `force` does not let it be replaced.
        """
        if _read(self.save / MARKER_NAME) == self.text and all(shard.finished(self.save) for shard in shards):
            return True
        check_replaceable(self.save, MARKER_NAME, self.force)
        return False

    @contextmanager
    def opened(self, report: Report) -> Iterator[None]:
        """Write into `folder`, which becomes `save` when the body succeeds; otherwise it stays, to go on from.

        Raises:
            FolderError: see `done`; or another process is at it.
        """
        with replaced_folder(self.save, MARKER_NAME, self.force, self.kind) as folder, _locked(folder):
            self._clear(folder, report)
            yield
            _sync(folder)

    def _clear(self, folder: Path, report: Report) -> None:
        """Keep what an earlier attempt at this conversion finished; remove all else."""
        # The marker is the first file of the folder; whoever finds it under the result's name finds all others too.
        marker = folder / MARKER_NAME
        same = _read(marker) == self.text
        others = [one for one in folder.iterdir() if one.name not in (LOCK_NAME, MARKER_NAME)]
        if others and not same:
            report(f"{folder}: left by another conversion; started afresh.")
        for one in others:
            if not same or one.name.startswith("."):  # a killed writer's half file
                one.unlink()
        marker.write_text(self.text, encoding="utf-8")

    @property
    def text(self) -> str:
        """Content of the marker."""
        return json.dumps(self.made, indent=2) + "\n"


def unfinished(shards: Sequence[Shard[AnyItem]], folder: Path) -> list[Shard[AnyItem]]:
    """The shards that `folder` lacks.

    Raises:
        FolderError: the disk has no room for them.
    """
    left = [shard for shard in shards if not shard.finished(folder)]
    needed, free = sum(shard.size for shard in left), shutil.disk_usage(folder).free
    if needed > free:
        raise FolderError(f"{folder.parent} has {free / 2**30:.1f} GiB free; the shards need {needed / 2**30:.1f} GiB.")
    return left


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One conversion writes into `folder` at a time; a killed one holds nothing."""
    path = folder / LOCK_NAME
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"another conversion is writing into {folder}; wait for it, or stop it.") from None
        yield
        path.unlink()


def _sync(folder: Path) -> None:
    """Every byte on the disk before the folder gets its name."""
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
