"""Provenance: what the generated files were made from. It says nothing about what a server has installed.

``collect`` reads the commit and the state of exactly the source files that were used, and hashes their bytes as they
are on disk. Outside a git checkout the commit is null with the reason; what nobody can know here is written as unknown.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slime.experiment.errors import ExperimentError
from slime.experiment.facts import Facts, default_root
from slime.experiment.facts_schema import ImagesFile

UNKNOWN_AT_BUILD = ("driver", "cuda", "image_digest", "installed_sglang", "installed_megatron", "gpu_type")
GIT_SECONDS = 20


def collect(repo_root: Path | None, sources: Iterable[tuple[str | None, str]], images: ImagesFile) -> dict[str, Any]:
    """The provenance record as plain JSON data.

    ``sources`` are ``(model id or None for all models, path relative to the repository root)``. ``repo_root`` None
    means the folder above ``recipes``. Raises ``ExperimentError`` when a listed file cannot be read.
    """
    root = default_root().parent if repo_root is None else repo_root
    listed = list(dict.fromkeys(sources))
    commit, reason = _commit(root)
    modified = _modified(root, [path for _, path in listed]) if commit else None
    return {
        "commit": commit,
        "commit_reason": reason,
        "dirty": None if modified is None else bool(modified),
        "sources": [
            {
                "model": model,
                "path": path,
                "sha256": _sha256(root / path),
                "modified": None if modified is None else path in modified,
            }
            for model, path in listed
        ],
        "containers": _containers(images),
        "runtime": dict.fromkeys(UNKNOWN_AT_BUILD, "unknown"),
        "validation": {"static": True, "gpu": "none"},
    }


def source_files(facts: Facts, experiment_files: Iterable[str]) -> list[tuple[str | None, str]]:
    """Every file that the generated files come from: the shared ones, then two per recipe."""
    shared: list[tuple[str | None, str]] = [(None, f"recipes/experiment/{name}") for name in experiment_files]
    return shared + [(model, path) for model in facts.launch for path in facts.sources(model)]


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read for its sha256: {error.strerror}") from None


def _git(root: Path, *arguments: str) -> str | None:
    """Git's answer, or None when git is absent, slow or refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _commit(root: Path) -> tuple[str | None, str | None]:
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != root.resolve():
        return None, "not a git checkout"
    head = _git(root, "rev-parse", "HEAD")
    return (head.strip(), None) if head else (None, "the checkout has no commit")


def _modified(root: Path, paths: list[str]) -> set[str]:
    """The listed files that differ from HEAD or are not in it."""
    answer = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--", *paths)
    if answer is None:
        return set(paths)
    return {entry[3:] for entry in answer.split("\0") if entry}


def _containers(images: ImagesFile) -> dict[str, Any]:
    return {
        "images": [{"id": image.id, "reference": image.reference, "toolkit": image.toolkit} for image in images.images],
        "components": [component.model_dump() for component in images.components],
    }
