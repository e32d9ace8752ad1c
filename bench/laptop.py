"""What the laptop experiment gains: held-out accuracy before and after training, over several seeds.

Runs the four stages of the shell that the lab renders for the `tiny` model, once a seed, into a Ray cluster of its own
on loopback, and prints a table. Each seed makes its own model, problems and order of prompts.

    python bench/laptop.py --seeds 0 1 2 --output bench/results/laptop

writes OUTPUT.json (every reading), OUTPUT.md (the table), OUTPUT.svg (the curves) and OUTPUT.log (what the shells
printed).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

import psutil

ROOT = Path(__file__).resolve().parent.parent
FINAL_READINGS = 3  # the last accuracy is the mean of this many readings
COLOURS = ("#1f5fbf", "#c4621a", "#5b8c2a", "#7a4fb0", "#8a8a8a")


@dataclass
class SeedRun:
    """One seed: accuracies are fractions of sampled answers that are right, log-prob gaps are absolute, in nats."""

    seed: int
    before: float
    after: float
    readings: list[tuple[int, float]]
    rewards: list[float]
    gap_mean: float
    gap_max: float
    seconds: dict[str, float]

    @property
    def gain(self) -> float:
        """Accuracy after minus before."""
        return self.after - self.before


def run_stage(stage: list[str], folder: Path, environment: dict[str, str], log: TextIO) -> float:
    """Run one stage of the shell from the repository's root; returns its seconds."""
    start = time.monotonic()
    command = ["bash", str(folder / "experiment.sh"), *stage]
    print(f"  {' '.join(stage)} ...", file=sys.stderr, flush=True)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line.replace(str(folder), "RUN").replace(str(ROOT), "ROOT"))
            if "held-out" in line:
                print("   ", line.rstrip(), file=sys.stderr, flush=True)
    if process.returncode:
        raise SystemExit(f"{' '.join(stage)} ended with status {process.returncode}; see {log.name}")
    return time.monotonic() - start


def run_seed(seed: int, rounds: int, interval: int, folder: Path, environment: dict[str, str], log: TextIO) -> SeedRun:
    """All four stages of one seed."""
    print(f"seed {seed}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True)
    choices = {
        "model": "tiny",
        "rounds": rounds,
        "hf": f"{folder}/tiny/hf",
        "train": f"{folder}/tiny/torch_dist",
        "data": f"{folder}/tiny/data/train.jsonl",
        "save": f"{folder}/tiny/run",
    }
    (folder / "choices.json").write_text(json.dumps(choices), encoding="utf-8")
    render = [sys.executable, "-m", "slime", "lab", "render", f"{folder}/choices.json", "-o", str(folder)]
    subprocess.run(render, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    environment = environment | {"SLIME_TINY_SEED": str(seed)}
    seeds = ["--seed", str(seed), "--rollout-seed", str(seed), "--eval-interval", str(interval)]
    stages = {"prepare": [], "convert": [], "check": [], "train": seeds}
    seconds = {stage: run_stage([stage, *more], folder, environment, log) for stage, more in stages.items()}
    return read_metrics(seed, folder / "tiny/run/metrics.jsonl", seconds)


def read_metrics(seed: int, file: Path, seconds: dict[str, float]) -> SeedRun:
    """The readings of one run, from the metrics that the trainer wrote."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    readings = [(int(row["round"]) + 1, float(row["eval/heldout"])) for row in rows if "eval/heldout" in row]
    rounds = [row for row in rows if "train/loss" in row]
    last = [value for _, value in readings[-FINAL_READINGS:]]
    return SeedRun(
        seed=seed,
        before=readings[0][1],
        after=sum(last) / len(last),
        readings=readings,
        rewards=[float(row["rollout/raw_reward"]) for row in rounds],
        gap_mean=sum(float(row["train/train_rollout_logprob_abs_diff"]) for row in rounds) / len(rounds),
        gap_max=max(float(row["train/train_rollout_logprob_abs_diff_max"]) for row in rounds),
        seconds={stage: round(value, 1) for stage, value in seconds.items()},
    )


def table(runs: list[SeedRun]) -> str:
    """The result as a Markdown table."""
    lines = [
        "| seed | held-out before | after | gain | mean abs. log-prob gap | largest | prepare | train |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {run.seed} | {run.before:.3f} | {run.after:.3f} | {run.gain:+.3f} | {run.gap_mean:.1e} | {run.gap_max:.1e} "
        f"| {run.seconds['prepare']:.0f} s | {run.seconds['train']:.0f} s |"
        for run in runs
    ]
    return "\n".join(lines)


def curve(runs: list[SeedRun]) -> str:
    """Held-out accuracy (line with dots) and training reward (thin line) against the round, as SVG."""
    width, height, left, bottom = 640, 360, 48, 40
    rounds = max(len(run.rewards) for run in runs)

    def x(round_number: float) -> float:
        return round(left + (width - left - 16) * round_number / rounds, 1)

    def y(value: float) -> float:
        return round(height - bottom - (height - bottom - 16) * value, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12">',
        "<title>Held-out accuracy of the laptop experiment</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path d="M{left} {y(tick)}H{width - 16}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>')
    for run, colour in zip(runs, COLOURS, strict=False):
        reward = " ".join(f"{x(i + 1)},{y(value)}" for i, value in enumerate(run.rewards))
        held_out = " ".join(f"{x(number)},{y(value)}" for number, value in run.readings)
        parts.append(f'<polyline points="{reward}" fill="none" stroke="{colour}" stroke-opacity="0.3"/>')
        parts.append(f'<polyline points="{held_out}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(n)}" cy="{y(v)}" r="2.5" fill="{colour}"/>' for n, v in run.readings]
    legend = "".join(
        f'<tspan fill="{colour}" dx="14">seed {run.seed}: {run.before:.2f} to {run.after:.2f}</tspan>'
        for run, colour in zip(runs, COLOURS, strict=False)
    )
    parts.append(f'<text x="{left}" y="{height - 6}">{legend}</text>')
    parts.append(f'<text x="{width - 16}" y="{height - 22}" text-anchor="end">round {rounds}</text></svg>')
    return "\n".join(parts) + "\n"


def start_ray(folder: Path, port: int) -> dict[str, str]:
    """A Ray head of our own; returns the environment in which the shells find it."""
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_DASHBOARD": f"http://127.0.0.1:{port}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    head = ["ray", "start", "--head", "--num-cpus", "2", "--node-ip-address", "127.0.0.1", "--port", str(port + 1)]
    head += ["--dashboard-host", "127.0.0.1", "--dashboard-port", str(port), "--disable-usage-stats"]
    head += ["--temp-dir", str(folder / "ray")]
    subprocess.run(head, env=environment, check=True, stdout=subprocess.DEVNULL)
    return environment


def stop_ray(folder: Path) -> None:
    """End the processes of our own head, those that name its folder; `ray stop` would end every head."""
    ours = [
        process for process in psutil.process_iter(["cmdline"]) if str(folder / "ray") in str(process.info["cmdline"])
    ]
    for process in ours:
        process.terminate()
    for process in psutil.wait_procs(ours, timeout=10)[1]:
        process.kill()


def main() -> None:
    """Measure, print the table, write the four files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--eval-interval", type=int, default=10)
    parser.add_argument("--port", type=int, default=8465, help="of the Ray dashboard; the next one is the head's")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/laptop", help="without a suffix")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="slime-bench-"))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    environment = start_ray(folder, options.port)
    try:
        with options.output.with_suffix(".log").open("w", encoding="utf-8") as log:
            runs = [
                run_seed(seed, options.rounds, options.eval_interval, folder / f"seed-{seed}", environment, log)
                for seed in options.seeds
            ]
    finally:
        stop_ray(folder)
    packages = ("torch", "ray", "megatron-core", "sglang", "transformers")
    record = {
        "command": " ".join(["python", "bench/laptop.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": f"{os.cpu_count()} CPU cores, {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "runs": [asdict(run) for run in runs],
    }
    options.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    head = f"`{record['command']}`\n\n{record['date']}, {record['device']}, Python {record['python']}, {versions}.\n"
    note = (
        f"Accuracy of sampled answers at temperature 1; «after» is the mean of the last {FINAL_READINGS} readings, "
        f"{options.eval_interval} rounds apart. The log-prob gap is between trainer and engine on the same tokens, "
        "in float32, over all rounds.\n"
    )
    options.output.with_suffix(".md").write_text(f"{head}\n{note}\n{table(runs)}\n", encoding="utf-8")
    options.output.with_suffix(".svg").write_text(curve(runs), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    print(table(runs))


if __name__ == "__main__":
    main()
