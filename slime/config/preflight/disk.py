"""Folders to write to: writable, large enough, on a file system that suits them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.machine import is_shared
from slime.config.preflight.shards import checkpoint_bytes, checkpoint_elements
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import size_text

# FP32 weights and two FP32 moments, as a training checkpoint holds them.
_BYTES_SAVED = 12


def check_output_folders(inputs: Inputs) -> Iterator[Finding]:
    """Checkpoints, metrics, events and weights have somewhere to go."""
    config = inputs.config
    for flag, path, is_folder in (
        ("--save", config.save, True),
        ("--metrics-file", config.metrics_file, False),
        ("--tensorboard-dir", config.tensorboard_dir, True),
        ("--update-weight-disk-dir", config.update_weight_disk_dir, True),
        ("--update-weight-local-checkpoint-dir", config.update_weight_local_checkpoint_dir, True),
        ("--dry-run-json", config.dry_run_json, False),
    ):
        if path:
            yield from _writable(Path(path), flag, is_folder)


def check_disk_space(inputs: Inputs) -> Iterator[Finding]:
    """The disks hold what will be written: at least one checkpoint, and the weights that travel over disk."""
    config = inputs.config
    numbers = checkpoint_elements(inputs.shards)
    if config.save:
        # Without the optimizer's state a checkpoint is its weights, in the precision of the trainer.
        one = numbers * (4 if config.no_save_optim else _BYTES_SAVED)
        count = 1 if config.save_interval is None else -(-config.num_rollout // config.save_interval)
        if config.keep_last is not None:
            count = min(count, config.keep_last + 1)  # a new one is whole before an old one goes
        yield from _check_saves(inputs, Path(config.save), one, count)
    weights = checkpoint_bytes(inputs.folder)
    for flag, path, copies in (
        ("--update-weight-disk-dir", config.update_weight_disk_dir, 2),  # the next version is written beside the last
        ("--update-weight-local-checkpoint-dir", config.update_weight_local_checkpoint_dir, 1),
    ):
        if not path or not weights:
            continue
        free = shutil.disk_usage(existing(Path(path))).free
        if free < copies * weights:
            yield Finding(
                f"{flag} {path}: {size_text(free)} free, {copies} times the weights take {size_text(copies * weights)}",
                "name a folder on a larger disk",
                (flag,),
            )


def _check_saves(inputs: Inputs, folder: Path, one: int, count: int) -> Iterator[Finding]:
    config = inputs.config
    free = shutil.disk_usage(existing(folder)).free
    if free < one:
        yield Finding(
            f"--save {config.save}: {size_text(free)} free, one checkpoint takes about {size_text(one)} "
            f"({'weights' if config.no_save_optim else 'weights and optimizer'})",
            "save to a larger disk" if config.no_save_optim else "save to a larger disk, or give --no-save-optim",
            ("--save",),
        )
    elif free < one * count:
        yield Finding(
            f"--save {config.save}: {size_text(free)} free, {count} checkpoints take about {size_text(one * count)}",
            f"give --keep-last {max(free // one - 1, 1)}, --save-interval of at least "
            f"{-(-config.num_rollout * one // free)}, or a larger disk",
            ("--save", "--save-interval", "--keep-last"),
            severity="warning",
        )


def check_shared_folders(inputs: Inputs) -> Iterator[Finding]:
    """With several nodes, folders that all of them use lie on a file system that all of them see."""
    config = inputs.config
    if config.actor_num_nodes == 1 and not config.rollout_external_engine_addrs:
        return
    used = {
        "--save": config.save,
        "--load": config.load,
        "--ref-load": config.ref_load,
        "--hf-checkpoint": config.hf_checkpoint,
        "--update-weight-disk-dir": config.update_weight_disk_dir,
    }
    kinds = {flag: inputs.machine.file_system(Path(path)) for flag, path in used.items() if path}
    own = {flag: kind for flag, kind in kinds.items() if kind is not None and not is_shared(kind)}
    if own:
        listed = ", ".join(f"{flag} {used[flag]}" for flag in own)
        yield Finding(
            f"{listed}: on {', '.join(sorted(set(own.values())))}, which this machine alone sees, and other machines "
            "of "
            "the run look there too",
            "name folders on shared storage, or put the same files on every machine",
            tuple(own),
            severity="warning",
        )


def check_compile_cache(inputs: Inputs) -> Iterator[Finding]:
    """The cache of compiled kernels belongs to this machine."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        path = inputs.machine.environment.get(name)
        kind = inputs.machine.file_system(Path(path)) if path else None
        if is_shared(kind):
            yield Finding(
                f"{name}={path} lies on {kind}, which several machines share: they write over each other's kernels",
                f"unset {name}, or name a folder in /tmp",
            )


def _writable(path: Path, flag: str, is_folder: bool) -> Iterator[Finding]:
    if path.exists() and path.is_dir() != is_folder:
        kind = "file" if is_folder else "folder"
        yield Finding(f"{flag} {path} is a {kind}", f"name a {'folder' if is_folder else 'file'}", (flag,))
        return
    base = path if path.exists() else existing(path)
    if not path.exists() and not base.is_dir():
        yield Finding(f"{flag} {path}: {base} is a file, not a folder", "choose another folder", (flag,))
    elif not os.access(base, os.W_OK):
        yield Finding(f"{flag} {path}: {base} cannot be written", "choose another folder", (flag,))


def existing(path: Path) -> Path:
    """The nearest ancestor that exists (the path itself when it does)."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


RULES = (
    Rule(
        id="output-folders",
        title=Text("输出有地方可写", "Outputs have somewhere to go"),
        why=Text(
            "不能写的目录要到第一次保存时才会暴露。",
            "A folder that cannot be written shows itself at the first save.",
        ),
        host=check_output_folders,
    ),
    Rule(
        id="compile-cache",
        row=72,
        source="",
        severity="warning",
        title=Text("编译缓存属于本机", "The cache of compiled kernels belongs to this machine"),
        why=Text(
            "多台机器共用缓存目录时会互相覆盖，表现为 JSON 解析错误。端口由另一条规则检查。",
            "Machines that share a cache write over each other, seen as errors of a JSON parser. Ports have a rule of "
            "their own.",
        ),
        host=check_compile_cache,
    ),
    Rule(
        id="disk-space",
        row=73,
        source="",
        title=Text("磁盘装得下要写的内容", "The disks hold what will be written"),
        why=Text(
            "空间不够的保存会在运行很久之后失败；多节点时，各节点还要看到同一个目录。",
            "A save without space fails after many hours; with several nodes, all of them have to see the folder.",
        ),
        host=lambda inputs: (*check_disk_space(inputs), *check_shared_folders(inputs)),
    ),
)
