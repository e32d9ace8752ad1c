"""Checkpoint folders: tokenizer files, every shard of the weights, Megatron's tracker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.preflight.dimensions import read_json

TRACKER = "latest_checkpointed_iteration.txt"
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_MAX_HEADER = 100 * 1024 * 1024  # the limit of the safetensors format itself


@dataclass(frozen=True)
class Shard:
    """One safetensors file: the names in it, and the bytes that header and data should have."""

    names: frozenset[str]
    size: int


def read_shard(path: Path) -> Shard:
    """Read a shard's header, not its tensors. Raises ValueError with the reason."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= _MAX_HEADER:
            raise ValueError(f"the header claims {length} bytes: this is no safetensors file")
        text = file.read(length)
    if len(text) < length:
        raise ValueError(f"the header has {len(text)} of its {length} bytes")
    try:
        header = json.loads(text)
        spans = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
        end = max((int(span[1]) for span in spans.values()), default=0)
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError):
        raise ValueError("the header is not that of a safetensors file") from None
    return Shard(frozenset(spans), 8 + length + end)


def checkpoint_bytes(folder: Path) -> int:
    """Bytes of all safetensors files in a folder; 0 when there are none or the folder is missing."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors") if path.is_file())


def check_weights(config: Config) -> Iterator[Problem]:
    """The weights of --hf-checkpoint are complete."""
    folder = Path(config.hf_checkpoint)
    if folder.is_dir():  # otherwise check_dimensions says so
        yield from _check_safetensors(folder)


def _check_safetensors(folder: Path) -> Iterator[Problem]:
    """Every shard that the index names exists, is complete and holds the tensors it should."""
    index = folder / _INDEX
    if not index.is_file():
        if (folder / _SINGLE).is_file():
            yield from _check_shard(folder / _SINGLE, frozenset())
        else:
            yield Problem("hf", f"{folder}: neither {_SINGLE} nor {_INDEX}", "the download is incomplete")
        return
    try:
        shards = _names_by_shard(read_json(index))
    except ValueError as error:
        yield Problem("hf", f"{index}: {error}", "download the checkpoint again")
        return
    missing = sorted(name for name in shards if not (folder / name).is_file())
    if missing:
        listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        yield Problem(
            "hf",
            f"{folder}: {len(missing)} of {len(shards)} shards are missing: {listed}",
            "resume the download (the stage prepare)",
        )
    for name in sorted(set(shards) - set(missing)):
        yield from _check_shard(folder / name, shards[name])


def _names_by_shard(index: dict[str, Any]) -> dict[str, frozenset[str]]:
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise ValueError("it has no weight_map")
    shards: dict[str, set[str]] = {}
    for tensor, file in mapping.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise ValueError(f"weight_map[{tensor!r}] is {file!r}, not the name of a file beside the index")
        shards.setdefault(file, set()).add(tensor)
    return {file: frozenset(tensors) for file, tensors in shards.items()}


def _check_shard(path: Path, expected: frozenset[str]) -> Iterator[Problem]:
    try:
        shard = read_shard(path)
        size = path.stat().st_size
    except OSError as error:
        yield Problem("hf", f"{path} cannot be read: {error.strerror}")
        return
    except ValueError as error:
        yield Problem("hf", f"{path}: {error}", "download this file again")
        return
    if size != shard.size:
        yield Problem("hf", f"{path} has {size} bytes, its header announces {shard.size}", "download this file again")
    lost = sorted(expected - shard.names)
    if lost:
        yield Problem("hf", f"{path} lacks {len(lost)} tensors of the index, e.g. {lost[0]}", "download it again")


def check_tokenizer(config: Config) -> Iterator[Problem]:
    """Tokenizer files are there, with a chat template when one is applied."""
    folder = Path(config.hf_checkpoint)
    if not folder.is_dir():
        return
    has = {path.name for path in folder.iterdir()}
    if not ({"tokenizer.json", "tokenizer.model", "tiktoken.model"} & has or {"vocab.json", "merges.txt"} <= has):
        yield Problem(
            "hf", f"{folder} has no tokenizer (tokenizer.json, tokenizer.model)", "the download is incomplete"
        )
        return
    if not config.apply_chat_template or {"chat_template.jinja", "chat_template.json"} & has:
        return
    try:
        settings = read_json(folder / "tokenizer_config.json")
    except ValueError as error:
        yield Problem("hf", f"{folder / 'tokenizer_config.json'}: {error}")
        return
    if not settings.get("chat_template"):
        yield Problem(
            "hf",
            f"--apply-chat-template, and the tokenizer of {folder} has no chat template",
            "drop the flag, or use an instruction-tuned model",
            ("--apply-chat-template",),
        )


def check_megatron_checkpoints(config: Config) -> Iterator[Problem]:
    """There are weights to start from; a resumed run has rounds left."""
    loaded = read_tracker(config.load) if config.load else None
    if isinstance(loaded, Problem):
        # --load without a checkpoint starts from --ref-load, as documented, so one shell starts and resumes a run.
        if config.ref_load is None or (Path(str(config.load)) / TRACKER).exists():
            yield loaded
        else:
            yield from _check_fresh_start(config, Path(str(config.load)))
        loaded = None
    if config.ref_load is not None:
        if (Path(config.ref_load) / "config.json").is_file():
            yield from _check_safetensors(Path(config.ref_load))
        elif isinstance(reference := read_tracker(config.ref_load), Problem):
            yield reference
    if isinstance(loaded, int) and loaded + 1 >= config.num_rollout:
        yield Problem(
            "hf",
            f"--load {config.load} has finished round {loaded}, so none of the {config.num_rollout} rounds remains",
            f"give --num-rollout above {loaded + 1}",
            ("--num-rollout", "--load"),
        )


def _check_fresh_start(config: Config, load: Path) -> Iterator[Problem]:
    """Warn when --load was perhaps meant to resume a run: it is not where this run saves, or not empty."""
    if load.is_dir() and any(load.iterdir()):
        what = f"holds no checkpoint: {TRACKER} is missing"
    elif not load.exists() and (config.save is None or load.absolute() != Path(config.save).absolute()):
        what = "does not exist"
    else:
        return
    yield Problem(
        "hf",
        f"--load {load} {what}, so the run starts at round 0 with the weights of --ref-load {config.ref_load}",
        "if it should continue an earlier run, name the --save folder of that run",
        ("--load",),
        severity="warning",
    )


def read_tracker(folder: str) -> int | str | Problem:
    """The iteration that Megatron's tracker names (or the word ``release``), or what is wrong with it."""
    path = Path(folder) / TRACKER
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        hint = "run the stage convert first: `slime convert hf-to-megatron`"
        return Problem("hf", f"{folder} is no Megatron checkpoint: {TRACKER} is missing", hint)
    except OSError as error:
        return Problem("hf", f"{path} cannot be read: {error.strerror}")
    if text == "release":
        inner = Path(folder) / "release"
    elif text.isascii() and text.isdigit():
        inner = Path(folder) / f"iter_{int(text):07d}"
    else:
        return Problem("hf", f"{path} says {text[:40]!r}: neither an iteration nor the word release")
    if not inner.is_dir():
        return Problem("hf", f"{path} names {inner.name}, and {folder} has no such folder", "the save was cut off")
    return text if text == "release" else int(text)
