"""Making the tiny experiment's folder, part by part, each atomic and verified.

Layout::

    <output>/data/   train.jsonl, heldout.jsonl, .slime-tiny.json
    <output>/hf/     the model and its tokenizer as a Hugging Face checkpoint, .slime-tiny.json

A part appears by one rename when it is complete. Its manifest names the seed and the hash of every file, so a part that
is there can be checked, and one that was interrupted never looks whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slime.tiny.data import HELD_OUT, split_problems, write_problems
from slime.weights.folders import replaced_folder

MANIFEST_NAME = ".slime-tiny.json"
FORMAT_VERSION = 1
PARTS = ("data", "hf")

Report = Callable[[str], None]


class TinyError(RuntimeError):
    """The folder cannot be made or used; the message says which file is wrong and what to do."""


def build(output: Path, seed: int, force: bool, report: Report) -> None:
    """Make what is missing in `output`; parts that are complete for `seed` stay untouched.

    Args:
        force: make both parts again. The old ones stay until the new ones are complete.
        report: gets lines of progress.

    Raises:
        TinyError: `output` is a checkpoint, or a part belongs to another seed, was changed, or is a folder that this
            command did not make.
        FolderError: with `force`, a part is a folder that this command did not make.
        WarmStartError: the warm start did not reach its accuracy.
    """
    if (output / "config.json").is_file():
        raise TinyError(f"{output} is a checkpoint (it has config.json); choose a folder of its own with --output.")
    makers = {"data": _make_data, "hf": _make_model}
    for name in PARTS:
        part = output / name
        if not force and part.exists():
            check_part(part, seed)
            report(f"{part}: complete (seed {seed}), left as it is.")
            continue
        _remove_leftovers(part)
        with replaced_folder(part, MANIFEST_NAME, force=force) as folder:
            details = makers[name](folder, seed, report)
            _write_manifest(folder, name, seed, details)
        report(f"{part}: written.")


def check_part(part: Path, seed: int) -> dict[str, Any]:
    """Compare a part with its manifest; returns the manifest.

    Raises:
        TinyError: no manifest, another seed, or a file that is missing or changed.
    """
    path = part / MANIFEST_NAME
    remedy = f"Choose another --output, or let --force replace {part}."
    if not path.is_file():
        raise TinyError(
            f"{part} exists, but `slime tiny` did not make it ({MANIFEST_NAME} is missing). Choose another --output."
        )
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        files: dict[str, str] = manifest["sha256"]
        found = (manifest["format"], manifest["seed"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise TinyError(f"{path} is damaged: {error!r}. {remedy}") from error
    if found != (FORMAT_VERSION, seed):
        raise TinyError(f"{part} was made with seed {found[1]} (format {found[0]}), not seed {seed}. {remedy}")
    for name, expected in files.items():
        if not (part / name).is_file():
            raise TinyError(f"{part / name} is missing. {remedy}")
        if _sha256(part / name) != expected:
            raise TinyError(f"{part / name} is not as it was written. {remedy}")
    return manifest


def _make_data(folder: Path, seed: int, report: Report) -> dict[str, Any]:
    train, held_out = split_problems(seed)
    write_problems(folder / "train.jsonl", train)
    write_problems(folder / "heldout.jsonl", held_out)
    report(f"data: {len(train)} problems to train on, {HELD_OUT} held out.")
    return {"train": len(train), "held_out": len(held_out)}


def _make_model(folder: Path, seed: int, report: Report) -> dict[str, Any]:
    # The heavy imports wait until a model is really made: `slime tiny` on a complete folder answers at once.
    report("model: loading torch and transformers ...")
    import torch
    from transformers.utils import logging

    from slime.tiny.tokenizer import build_tokenizer
    from slime.tiny.warm_start import MAX_POSITIONS, EncodedProblems, WarmStart, build_model, run_warm_start

    logging.disable_progress_bar()
    # At this size a second thread gains nothing, and sums in a fixed order give the same weights for the same seed.
    torch.set_num_threads(1)
    tokenizer = build_tokenizer(MAX_POSITIONS)
    model = build_model(seed)
    report(f"model: {sum(parameter.numel() for parameter in model.parameters()):,} parameters; supervised warm start.")
    train, held_out = (EncodedProblems(problems, tokenizer) for problems in split_problems(seed))
    settings = WarmStart(seed=seed)
    result = run_warm_start(model, train, held_out, settings, lambda line: report(f"  {line}"))
    report(
        f"model: {result.steps} steps; sampled accuracy {result.train_accuracy:.3f} on training problems, "
        f"{result.held_out_accuracy:.3f} on held-out problems."
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"warm_start": asdict(settings), "result": asdict(result)}


def _write_manifest(folder: Path, part: str, seed: int, details: dict[str, Any]) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for path in files:
        path.chmod(0o644)  # safetensors creates files that only their owner can read
    manifest = {
        "format": FORMAT_VERSION,
        "made_by": "slime tiny",
        "part": part,
        "seed": seed,
        **details,
        "sha256": {path.name: _sha256(path) for path in files},
    }
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _remove_leftovers(part: Path) -> None:
    """Folders of earlier runs that were killed while they wrote this part."""
    for path in part.parent.glob(f".{part.name}.*.partial"):
        shutil.rmtree(path, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
