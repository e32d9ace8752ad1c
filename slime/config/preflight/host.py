"""This machine: ports, folders to write to, shared memory, disk. Probes only; nothing is created."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.preflight.checkpoint import TRACKER, checkpoint_bytes

LOOPBACK = "127.0.0.1"
SHARED_MEMORY = Path("/dev/shm")
# A training checkpoint holds FP32 weights and two FP32 moments: 12 bytes a parameter. A Hugging Face checkpoint has
# between 1 (FP8) and 4 bytes a parameter; 2 is taken, so the estimate is high on a CPU, where it is 4.
_SAVE_OVER_HF = 6


def check_ports(config: Config) -> Iterator[Problem]:
    """The engines' ports are free when they were chosen by hand, and the loopback address works."""
    ports = [] if config.sglang_port is None else range(config.sglang_port, config.sglang_port + config.num_engines)
    for port in (0, *ports):
        if port > 65535:
            yield Problem(
                "host",
                f"--sglang-port {config.sglang_port} leaves no room for {config.num_engines} engines below 65536",
                f"give at most {65536 - config.num_engines}",
                ("--sglang-port",),
            )
            return
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            try:
                probe.bind((LOOPBACK, port))
            except OSError as error:
                what = f"port {port}" if port else "any port"
                hint = (
                    "stop what listens there, or give another --sglang-port" if port else "bring up the loopback device"
                )
                yield Problem("host", f"cannot bind {what} on {LOOPBACK}: {error.strerror}", hint, ("--sglang-port",))


def check_save(config: Config) -> Iterator[Problem]:
    """The save folder can be written and does not hold another run."""
    if not config.save:
        return
    folder = Path(config.save)
    yield from _writable(folder, "--save", is_folder=True)
    same = config.load is not None and Path(config.load).resolve() == folder.resolve()
    tracker = folder / TRACKER
    if tracker.is_file() and not same:
        step = tracker.read_text(encoding="utf-8", errors="replace").strip()[:40]
        yield Problem(
            "host",
            f"--save {config.save} holds a run already (at {step}): this one would write over its checkpoints",
            f"give --load {config.save} to continue it, or another --save",
            ("--save", "--load"),
        )


def check_output_paths(config: Config) -> Iterator[Problem]:
    """Metrics, events and weights have somewhere to go."""
    for flag, path, is_folder in (
        ("--metrics-file", config.metrics_file, False),
        ("--tensorboard-dir", config.tensorboard_dir, True),
        ("--update-weight-disk-dir", config.update_weight_disk_dir, True),
        ("--dry-run-json", config.dry_run_json, False),
    ):
        if path:
            yield from _writable(Path(path), flag, is_folder)


def check_shared_memory(config: Config) -> Iterator[Problem]:
    """One bucket of weights fits in shared memory, through which an engine on a CPU reads it."""
    if config.device != "cpu" or config.update_weight_transport == "disk":
        return
    if not SHARED_MEMORY.is_dir():
        yield Problem("host", f"{SHARED_MEMORY} does not exist: weights travel through it", "mount a tmpfs there")
        return
    need = min(config.update_weight_buffer_size, 2 * checkpoint_bytes(Path(config.hf_checkpoint)))
    free = shutil.disk_usage(SHARED_MEMORY).free
    if free < need:
        yield Problem(
            "host",
            f"{SHARED_MEMORY} has {_size(free)} free, one bucket of weights takes {_size(need)}",
            f"give --update-weight-buffer-size {free // 2}, or a larger tmpfs (docker run --shm-size)",
            ("--update-weight-buffer-size",),
        )


def check_disk(config: Config) -> Iterator[Problem]:
    """The disk holds at least one checkpoint, and says when it cannot hold all."""
    if not config.save:
        return
    one = _SAVE_OVER_HF * checkpoint_bytes(Path(config.hf_checkpoint))
    count = 1 if config.save_interval is None else -(-config.num_rollout // config.save_interval)
    free = shutil.disk_usage(_existing(Path(config.save))).free
    if free < one:
        yield Problem(
            "host",
            f"--save {config.save}: {_size(free)} free, one checkpoint takes about {_size(one)}",
            "save to a larger disk",
            ("--save",),
        )
    elif free < one * count:
        yield Problem(
            "host",
            f"--save {config.save}: {_size(free)} free, {count} checkpoints take about {_size(one * count)}",
            f"give --save-interval of at least {-(-config.num_rollout * one // free)}, or a larger disk",
            ("--save", "--save-interval"),
            severity="warning",
        )


def _writable(path: Path, flag: str, is_folder: bool) -> Iterator[Problem]:
    if path.exists() and path.is_dir() != is_folder:
        yield Problem("host", f"{flag} {path} is a {'file' if is_folder else 'folder'}", flags=(flag,))
        return
    base = path if path.exists() else _existing(path)
    if not path.exists() and not base.is_dir():
        yield Problem("host", f"{flag} {path}: {base} is a file, not a folder", flags=(flag,))
    elif not os.access(base, os.W_OK):
        yield Problem("host", f"{flag} {path}: {base} cannot be written", "choose another folder", (flag,))


def _existing(path: Path) -> Path:
    """The nearest ancestor that exists (the path itself when it does)."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
