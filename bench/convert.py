"""Conversions of a random checkpoint of GLM-4-9B's shape: time and memory against the bytes that are read and written.

    python bench/convert.py --scratch DIR --results bench/results [--layers 40]

All 40 layers need 57 GB of disk. Every step runs in a process of its own. A plain copy of the same checkpoint in the
same run says what the disk gives: ``of copy`` is the time for each byte read or written, relative to that copy. Memory
is anonymous memory, sampled every 20 ms; mapped files, which the system may drop at any moment, are not in it. What
came back from Megatron is compared with the original, tensor by tensor.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from slime.weights.hf_config import config_from_dict
from slime.weights.hf_io import HFCheckpoint, write_shards
from slime.weights.tables import rules

Publish = Callable[[list[dict[str, Any]]], None]

GLM = {
    "architectures": ["Glm4ForCausalLM"],
    "model_type": "glm4",
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 151552,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "attention_bias": True,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "dtype": "bfloat16",
}


def make(folder: Path, layers: int) -> None:
    """The checkpoint; every layer has the same random numbers, made once."""
    values = {**GLM, "num_hidden_layers": layers}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(values))
    noise: dict[tuple[int, ...], torch.Tensor] = {}
    generator = torch.Generator().manual_seed(0)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        if shape not in noise:
            noise[shape] = torch.randn(shape, generator=generator).mul_(0.02).bfloat16()
        return noise[shape].clone()

    specs = [spec for rule in rules(config_from_dict(values)) for spec in rule.hf]
    write_shards(folder, ((spec.name, tensor(spec.shape)) for spec in specs), 2**31)


def measure(words: list[str]) -> dict[str, float]:
    """Wall seconds and the largest anonymous memory of one command and its children."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None:
        peak = max(peak, anonymous(process.pid))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: status {process.returncode}")
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak}


def anonymous(pid: int) -> int:
    """Bytes of RssAnon of a process and all below it; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0)
    return own * 1024 + sum(anonymous(int(child)) for child in children)


def size(folder: Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(scratch: Path, layers: int, publish: Publish) -> None:
    """All steps, `publish` after each; what a step wrote goes as soon as nobody reads it."""
    hf, copy = scratch / "hf", scratch / "copy"
    make(hf, layers)
    slime = [sys.executable, "-m", "slime", "convert"]
    source = ["--hf-checkpoint", str(hf)]
    rows: list[dict[str, Any]] = []

    def step(name: str, words: list[str], read: Path, written: Path, goes: tuple[Path, ...] = ()) -> None:
        found = measure(words)
        rows.append({"step": name, **found, "read": size(read), "written": size(written)})
        print(rows[-1], flush=True)
        publish(rows)
        for folder in goes:
            shutil.rmtree(folder)

    fp8, int4, back, dist = (scratch / name for name in ("fp8", "int4", "back", "dist"))
    plain = ["sh", "-c", f"cp -r '{hf}' '{copy}' && sync '{copy}'/*"]
    step("plain copy", plain, hf, copy, (copy,))
    step("hf-to-megatron", [*slime, "hf-to-megatron", *source, "--save", str(dist)], hf, dist)
    to_hf = [*slime, "megatron-to-hf", *source, "--load", str(dist), "--save", str(back), "--max-shard-gib"]
    step("megatron-to-hf, files of 1 GiB", [*to_hf, "1"], dist, back)
    refuse_difference(hf, back)
    shutil.rmtree(back)
    step("megatron-to-hf, files of 5 GiB", [*to_hf, "5"], dist, back, (back, dist))
    step("plain copy again", plain, hf, copy, (copy,))
    step("hf-to-fp8", [*slime, "hf-to-fp8", *source, "--save", str(fp8)], hf, fp8)
    from_fp8 = [*slime, "fp8-to-bf16", "--hf-checkpoint", str(fp8), "--save", str(back)]
    step("fp8-to-bf16", from_fp8, fp8, back, (fp8, back))
    step("hf-to-int4", [*slime, "hf-to-int4", *source, "--save", str(int4)], hf, int4, (int4,))


def refuse_difference(first: Path, second: Path) -> None:
    """Every tensor of the two checkpoints is the same."""
    one, other = HFCheckpoint(first), HFCheckpoint(second)
    different = [name for name in one.shapes if not torch.equal(one.read(name), other.read(name))]
    if different or one.shapes.keys() != other.shapes.keys():
        raise SystemExit(f"{second} is not {first}: {different[:8]}")


def table(rows: list[dict[str, Any]], layers: int, parameters: int) -> str:
    """Markdown."""
    copies = [row for row in rows if "copy" in row["step"]]
    rate = sum(row["read"] + row["written"] for row in copies) / sum(row["seconds"] for row in copies)
    lines = [
        "# Conversions",
        "",
        f"GLM-4-9B's shape with {layers} of its 40 layers, {parameters / 1e9:.2f} billion parameters, bfloat16, "
        f"{rows[0]['read'] / 2**30:.1f} GiB. {datetime.date.today()}; {os.cpu_count()} cores, one process with one "
        f"thread each, {versions()}; other work on the machine: {os.getloadavg()[2]:.1f} ready processes on average. "
        f"A plain copy moves {rate / 2**20:.0f} MiB/s (read + written).",
        "",
        "| step | read, GiB | written, GiB | seconds | MiB/s | of copy | peak memory, GiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        moved = row["read"] + row["written"]
        lines.append(
            f"| {row['step']} | {row['read'] / 2**30:.2f} | {row['written'] / 2**30:.2f} | {row['seconds']:.1f} | "
            f"{moved / row['seconds'] / 2**20:.0f} | {row['seconds'] * rate / moved:.2f} | "
            f"{row['peak_bytes'] / 2**30:.2f} |"
        )
    return "\n".join([*lines, ""])


def versions() -> str:
    """Of what does the work."""
    names = ("torch", "safetensors", "megatron-core")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def main() -> None:
    """Run, and write ``convert.json`` and ``convert.md`` after every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="a new folder on the disk to measure")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=40)
    args = parser.parse_args()
    config = config_from_dict({**GLM, "num_hidden_layers": args.layers})
    parameters = sum(math.prod(spec.shape) for rule in rules(config) for spec in rule.hf)

    def publish(rows: list[dict[str, Any]]) -> None:
        facts = {
            "date": str(datetime.date.today()),
            "layers": args.layers,
            "parameters": parameters,
            "python": platform.python_version(),
            "versions": versions(),
            "steps": rows,
        }
        (args.results / "convert.json").write_text(json.dumps(facts, indent=2) + "\n")
        (args.results / "convert.md").write_text(table(rows, args.layers, parameters))

    try:
        run(args.scratch, args.layers, publish)
    finally:
        shutil.rmtree(args.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
