"""Write an experiment's files into a folder without losing what somebody has changed there."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slime.experiment.errors import InputError
from slime.experiment.messages import MESSAGES
from slime.experiment.texts import fill

RECORD = ".slime-lab.json"
"""In the folder: the SHA-256 of each file as it was written. A file that has another one was changed since."""


def write_files(folder: Path, files: Mapping[str, str], force: bool) -> list[str]:
    """Write each file whole or not at all; an older file of the same name stays until then.

    Args:
        force: replace files that were changed since, or that came from elsewhere.

    Returns:
        The paths.

    Raises:
        InputError: the folder cannot be written, or a file in it is not as an earlier call wrote it and differs from
            what would be written. Nothing is written then.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = _record(folder)
        if not force:
            _refuse_changed(folder, files, record)
        for name, text in files.items():
            _write(folder, name, text, 0o755 if name.endswith(".sh") else 0o644)
        record |= {name: _digest(text.encode()) for name, text in files.items()}
        _write(folder, RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n", 0o644)
    except FileExistsError:
        raise InputError(MESSAGES["is_file"], str(folder)) from None
    except OSError as error:
        raise InputError(fill(MESSAGES["no_folder"], {"why": error.strerror}), str(folder)) from None
    return [str(folder / name) for name in files]


def _refuse_changed(folder: Path, files: Mapping[str, str], record: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        if not path.exists():
            continue
        found = _digest(path.read_bytes())
        if found not in (record.get(name), _digest(text.encode())):
            raise InputError(MESSAGES["changed"], str(path))


def _record(folder: Path) -> dict[str, str]:
    """What earlier calls wrote; nothing if the record is absent or damaged, so that no file counts as ours."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(folder: Path, name: str, text: str, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.chmod(temporary, mode)  # noqa: PTH101 - mkstemp gave a plain path
    Path(temporary).replace(folder / name)
