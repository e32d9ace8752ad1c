"""What a checkpoint folder holds, and which step of it is meant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slime.config.preflight.shards import INDEX, SINGLE

TRACKER = "latest_checkpointed_iteration.txt"
Kind = Literal["megatron", "hf", "empty", "other", "missing"]


@dataclass(frozen=True)
class Folder:
    """One checkpoint folder.

    Attributes:
        path: of the folder.
        kind: "megatron" has a tracker file, "hf" has config.json with weights, "empty" holds nothing, "other" something
            else.
    """

    path: Path
    kind: Kind


class TrackerProblem(ValueError):
    """The tracker file cannot be used; the message says why."""


def look_at(path: str) -> Folder:
    """Tell what a folder holds. Raises OSError when it may not be entered."""
    folder = Path(path)
    if not folder.is_dir():
        return Folder(folder, "missing")
    if (folder / TRACKER).is_file():
        return Folder(folder, "megatron")
    if (folder / "config.json").is_file():
        return Folder(folder, "hf")
    if (folder / INDEX).is_file() or (folder / SINGLE).is_file():
        return Folder(folder, "hf")
    return Folder(folder, "empty" if not any(folder.iterdir()) else "other")


def read_tracker(folder: Path) -> int | Literal["release"]:
    """The step that Megatron's tracker names, or the word ``release``.

    Raises:
        TrackerProblem: it names something else, or a folder that is not there.
    """
    path = folder / TRACKER
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    if text == "release":
        inner = folder / "release"
    elif text.isascii() and text.isdigit():
        inner = folder / f"iter_{int(text):07d}"
    else:
        raise TrackerProblem(f"{path} says {text[:40]!r}: neither a step nor the word release")
    if not inner.is_dir():
        raise TrackerProblem(f"{path} names {inner.name}, and {folder} has no such folder")
    return "release" if text == "release" else int(text)


def steps(folder: Path) -> list[int]:
    """The steps of a Megatron folder, ascending."""
    names = (path.name.removeprefix("iter_") for path in folder.glob("iter_*") if path.is_dir())
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())
