"""An engine host's own copy of the weights, which differences keep up to date (--update-weight-local-checkpoint-dir).

A complete Hugging Face checkpoint and a note of its version. `pull` brings it to another version: a full one replaces
the folder in one rename; a difference is applied in place, tensor by tensor, and proven by its checksums. A lock lets
one process at a time write; others on the host then find the version there. While a difference is being applied, the
note says so; a host that dies in between is brought back by a full version.

Imports no torch: it runs beside the engine.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from slime.weights.delta import CHECKSUMS, DeltaError, DeltaGapError, VersionNote, apply
from slime.weights.folders import replaced_folder

NOTE_NAME = ".slime-version.json"
"""In a version's folder and in the local copy; a folder without it is neither read nor replaced."""
APPLYING = "applying"


@dataclass(frozen=True)
class Region:
    """Where a tensor's bytes stand: from `start` to `end` of `file`."""

    file: Path
    start: int
    end: int


def read_note(folder: Path) -> dict[str, Any]:
    """A folder's note.

    Raises:
        DeltaError: there is none, or it is not JSON.
    """
    path = folder / NOTE_NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DeltaError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise DeltaError(f"{path} holds no JSON object")
    return found


def regions(folder: Path) -> dict[str, Region]:
    """Every tensor of the folder's safetensors files, from their headers (8 bytes of length, then JSON).

    Raises:
        DeltaError: a header is damaged.
    """
    found: dict[str, Region] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length))
            for name, entry in header.items():
                if name != "__metadata__":
                    start, end = entry["data_offsets"]
                    found[name] = Region(path, 8 + length + int(start), 8 + length + int(end))
            last = max((place.end for place in found.values() if place.file == path), default=0)
            if last > size:
                raise DeltaError(f"{path} has {size} bytes, its header announces {last}")
        except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
            raise DeltaError(f"{path} is damaged: {error!r}") from error
    return found


class LocalCheckpoint:
    """The folder on this host. Several processes of the host may hold one each."""

    def __init__(self, folder: Path) -> None:
        """`folder`: made by the first full version; it must not hold anything else."""
        self.folder = folder

    def pull(self, source: Path) -> int:
        """Bring the folder to the version that `source` holds; returns the bytes that were read from `source`.

        Raises:
            DeltaGapError: the folder's state is not the one that the difference starts from. It stays as it is.
            DeltaError: the version is damaged, or what it left is not what its checksums say.
            FolderError: the folder holds something that no version was.
        """
        note = VersionNote.from_json(read_note(source), str(source / NOTE_NAME))
        with self._locked():
            if self._state() == {"version": note.version, "chain": note.chain}:
                return 0
            if note.base is None:
                return self._replace(source, note)
            return self._apply(source, note)

    def _state(self) -> dict[str, Any]:
        try:
            return read_note(self.folder)
        except DeltaError:
            return {}

    def _replace(self, source: Path, note: VersionNote) -> int:
        with replaced_folder(self.folder, NOTE_NAME, force=True) as partial:
            files = [path for path in sorted(source.iterdir()) if path.is_file() and path.name != NOTE_NAME]
            for path in files:
                shutil.copyfile(path, partial / path.name)
            _write_note(partial, {"version": note.version, "chain": note.chain})
        return sum(path.stat().st_size for path in files)

    def _apply(self, source: Path, note: VersionNote) -> int:
        state = self._state()
        wanted = {"version": note.base, "chain": note.chain}
        if state != wanted:
            raise DeltaGapError(
                f"{self.folder} holds {_words(state)}, and {source.name} is the difference from version {note.base} to "
                f"{note.version} of the chain {note.chain}"
            )
        shards = sorted(source.glob("*.safetensors"))
        places = regions(self.folder)
        _require_whole(source, note, shards, places)
        _write_note(self.folder, {**state, APPLYING: note.version})
        for shard in shards:
            _apply_shard(shard, note, places)
        _write_note(self.folder, {"version": note.version, "chain": note.chain})
        return sum(path.stat().st_size for path in shards)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Beside the folder, which a full version replaces. A killed process holds nothing."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / f".{self.folder.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _require_whole(source: Path, note: VersionNote, shards: list[Path], places: dict[str, Region]) -> None:
    """Refuse a difference that is cut off or meant for another model before anything is changed."""
    listed, found = set(note.checksums or {}), set[str]()
    for path in shards:
        try:
            with safe_open(path, framework="numpy") as shard:
                found |= set(shard.keys())
        except (SafetensorError, OSError) as error:
            raise DeltaError(f"{path} is damaged or cut off: {error}") from error
    if found != listed:
        lost = sorted(listed - found) or sorted(found - listed)
        raise DeltaError(f"{source} lists {len(listed)} changed tensors and holds {len(found)}; for example {lost[0]}")
    unknown = sorted(found - set(places))
    if unknown:
        raise DeltaError(f"{source} changes {unknown[0]}, which the local checkpoint does not have")


def _apply_shard(path: Path, note: VersionNote, places: dict[str, Region]) -> None:
    checksum, checksums = CHECKSUMS[note.checksum], note.checksums or {}
    with safe_open(path, framework="numpy") as shard, ThreadPoolExecutor(_threads()) as pool:

        def one(name: str) -> None:
            """Change one tensor in its file and check what it has become."""
            place = places[name]
            target = np.memmap(place.file, np.uint8, "r+", place.start, (place.end - place.start,))
            try:
                apply(target, shard.get_tensor(name), note.encoding)
            except DeltaError as error:
                raise DeltaError(f"{path}: {name}: {error}") from error
            found = checksum(target)
            if found != checksums[name]:
                raise DeltaError(
                    f"{name} has the {note.checksum} checksum {found} after version {note.version} was applied, and "
                    f"the trainer's has {checksums[name]}: the local copy was not what the difference was made from"
                )

        for future in [pool.submit(one, name) for name in list(shard.keys())]:
            future.result()


def _write_note(folder: Path, content: dict[str, Any]) -> None:
    partial = folder / f"{NOTE_NAME}.partial"
    partial.write_text(json.dumps(content) + "\n", encoding="utf-8")
    partial.replace(folder / NOTE_NAME)


def _words(state: dict[str, Any]) -> str:
    if not state:
        return "no version"
    if APPLYING in state:
        return f"version {state['version']} with a part of version {state[APPLYING]}"
    return f"version {state['version']} of the chain {state['chain']}"


def _threads() -> int:
    return min(16, len(os.sched_getaffinity(0)))
