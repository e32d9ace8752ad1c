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
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.tiny_runs import (
    COLOURS,
    ROOT,
    Axes,
    heading,
    held_out,
    provenance,
    ray_head,
    read_rows,
    render_shell,
    run_stage,
)

FINAL_READINGS = 3  # the last accuracy is the mean of this many readings


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


def run_seed(seed: int, rounds: int, interval: int, folder: Path, environment: dict[str, str], log: TextIO) -> SeedRun:
    """All four stages of one seed."""
    print(f"seed {seed}", file=sys.stderr, flush=True)
    render_shell(folder, rounds)
    environment = environment | {"SLIME_TINY_SEED": str(seed)}
    seeds = ["--seed", str(seed), "--rollout-seed", str(seed), "--eval-interval", str(interval)]
    stages = {"prepare": [], "convert": [], "check": [], "train": seeds}
    seconds = {stage: run_stage([stage, *more], folder, environment, log) for stage, more in stages.items()}
    return read_metrics(seed, folder / "tiny/run/metrics.jsonl", seconds)


def read_metrics(seed: int, file: Path, seconds: dict[str, float]) -> SeedRun:
    """The readings of one run, from the metrics that the trainer wrote."""
    rows = read_rows(file)
    readings = held_out(rows)
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
    axes = Axes("Held-out accuracy of the laptop experiment", max(len(run.rewards) for run in runs))
    for run, colour in zip(runs, COLOURS, strict=False):
        axes.line([(i + 1, value) for i, value in enumerate(run.rewards)], colour, 'stroke-opacity="0.3"')
        axes.line([(number, value) for number, value in run.readings], colour)
        axes.dots(run.readings, colour)
    for at, (run, colour) in enumerate(zip(runs, COLOURS, strict=False)):
        text = f"seed {run.seed}: {run.before:.2f} to {run.after:.2f}"
        axes.text(axes.left + 150 * at, axes.height - 6, text, colour=colour)
    return axes.svg()


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
    with (
        ray_head(folder, options.port) as environment,
        options.output.with_suffix(".log").open("w", encoding="utf-8") as log,
    ):
        runs = [
            run_seed(seed, options.rounds, options.eval_interval, folder / f"seed-{seed}", environment, log)
            for seed in options.seeds
        ]
    record = provenance(" ".join(["python", "bench/laptop.py", *sys.argv[1:]])) | {
        "runs": [asdict(run) for run in runs]
    }
    options.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    note = (
        f"Accuracy of sampled answers at temperature 1; «after» is the mean of the last {FINAL_READINGS} readings, "
        f"{options.eval_interval} rounds apart. The log-prob gap is between trainer and engine on the same tokens, "
        "in float32, over all rounds.\n"
    )
    options.output.with_suffix(".md").write_text(f"{heading(record)}\n{note}\n{table(runs)}\n", encoding="utf-8")
    options.output.with_suffix(".svg").write_text(curve(runs), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    print(table(runs))


if __name__ == "__main__":
    main()
