"""The tracker file of a Megatron checkpoint folder: which of its checkpoints is the latest complete one."""

from __future__ import annotations

from pathlib import Path

TRACKER_NAME = "latest_checkpointed_iteration.txt"
RELEASE = "release"
"""Tracker text and folder name of converted weights, which belong to no step."""


class CheckpointError(RuntimeError):
    """A Megatron checkpoint cannot be written or read; the message says which file and what to do."""


def step_folder(root: Path, step: int) -> Path:
    """Where the checkpoint of `step` stands."""
    return root / f"iter_{step:07d}"


def step_of(folder: Path) -> int | None:
    """The step that the name of a checkpoint's folder says; None for any other name."""
    prefix, _, digits = folder.name.partition("_")
    if prefix != "iter" or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if step_folder(folder.parent, int(digits)) == folder else None


def read_tracker(root: Path) -> int | str | None:
    """The step that the tracker names, ``"release"``, or None without a tracker.

    Raises:
        CheckpointError: the tracker holds something else.
    """
    path = root / TRACKER_NAME
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    if text == RELEASE:
        return RELEASE
    if text.isascii() and text.isdigit():
        return int(text)
    raise CheckpointError(f"{path} holds {text[:40]!r}; it must hold the number of a step, or {RELEASE!r}.")


def checkpoint_folder(root: Path, step: int | None = None) -> Path:
    """The folder of the checkpoint that the tracker of `root` names, or of `step`.

    Raises:
        CheckpointError: there is no tracker, or the folder that it names is missing, or there is no such step.
    """
    if step is not None:
        chosen = step_folder(root, step)
        if not chosen.is_dir():
            raise CheckpointError(f"{root} has no checkpoint of step {step}; steps that are there: {_steps(root)}.")
        return chosen
    latest = read_tracker(root)
    if latest is None:
        raise CheckpointError(
            f"{root} holds no Megatron checkpoint ({TRACKER_NAME} is missing). "
            "`slime convert hf-to-megatron` makes one from a Hugging Face checkpoint."
        )
    folder = root / RELEASE if isinstance(latest, str) else step_folder(root, latest)
    if not folder.is_dir():
        present = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
        raise CheckpointError(
            f"{root / TRACKER_NAME} names {folder.name}, which is missing; present: {', '.join(present) or 'none'}."
        )
    return folder


def present_steps(root: Path) -> list[int]:
    """The steps whose folders `root` holds, ascending; none when it does not exist."""
    return sorted(step for path in root.iterdir() if (step := step_of(path)) is not None) if root.is_dir() else []


def _steps(root: Path) -> str:
    return ", ".join(map(str, present_steps(root))) or "none"
