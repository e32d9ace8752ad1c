"""What fully async training gains and costs: the tiny experiment on separate processes, by rounds and from a queue.

    python bench/fully_async.py --rounds 30 --output bench/results/fully-async

One seed, the flags of the tiny recipe but for batch, rate and layout: one process trains, one engine generates. The
schedules differ in `--rollout-function-path` and `--max-weight-staleness` alone, and run at the same time, so that they
find the machine in the same state. Writes OUTPUT.json (every reading), OUTPUT.md (the table) and OUTPUT.svg (the
curves).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.small_multiples import Panel, small_multiples
from bench.tiny_runs import ROOT, heading, held_out, provenance, read_rows
from slime.config.import_paths import FULLY_ASYNC
from slime.train import recipe_words

SCHEDULES: dict[str, list[str]] = {
    "synchronous": [],
    "at most 1 update behind": ["--rollout-function-path", FULLY_ASYNC, "--max-weight-staleness", "1"],
}
HELD_OUT = 200  # prompts of an evaluation


@dataclass
class Run:
    """One schedule. Accuracies are fractions; the numbers of rounds are means over those after the first.

    Attributes:
        before, readings: held-out accuracy before training, and (rounds trained, accuracy).
        rewards: mean reward of each round.
        round_seconds: rollout, training, saving and weight update.
        idle: share of it in which the trainer did not train.
        staleness, staleness_max: updates between a sample's oldest token and its training; over all rounds.
        gap: mean difference between the trainer's log-probs and those of the weights that sampled.
        clipped: share of tokens that TIS clipped.
        dropped: groups that were too old to train on, in the whole run.
    """

    schedule: str
    before: float
    readings: list[tuple[int, float]]
    rewards: list[float]
    round_seconds: float
    idle: float
    staleness: float
    staleness_max: float
    gap: float
    clipped: float
    dropped: float


def make_experiment(folder: Path, seed: int) -> None:
    """Model, data and checkpoint, below `folder`."""
    end(slime(["tiny", "--output", str(folder), "--seed", str(seed)]))
    end(slime(["convert", "hf-to-megatron", "--hf-checkpoint", f"{folder}/hf", "--save", f"{folder}/torch_dist"]))


def slime(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a command of slime's; it prints to this one's error stream."""
    environment = os.environ | {"RAY_ADDRESS": "local", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "slime", *words], cwd=ROOT, env=environment, stdout=sys.stderr)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a command; ends this one when it failed."""
    if process.wait():
        raise SystemExit(f"{process.args!r} ended with status {process.returncode}")


def flags(folder: Path, save: Path, words: argparse.Namespace) -> list[str]:
    """The flags of the tiny recipe on separate processes."""
    places = {
        '"$ROLLOUT_MODEL"': f"{folder}/hf",
        '"$TRAIN_CHECKPOINT"': f"{folder}/torch_dist",
        '"$PROMPT_DATA"': f"{folder}/data/train.jsonl",
        '"$EVAL_DATA"': f"{folder}/data/heldout.jsonl@[0:{HELD_OUT}]",
        '"$SAVE_DIR"': str(save),
        '"$SAVE_DIR/metrics.jsonl"': f"{save}/metrics.jsonl",
        '"$SAVE_DIR/tensorboard"': f"{save}/tensorboard",
    }
    own = {
        "--num-rollout": words.rounds,
        "--eval-interval": words.eval_interval,
        "--rollout-batch-size": words.prompts,
        "--global-batch-size": 8 * words.prompts,
        "--n-samples-per-eval-prompt": 2,
        "--lr": words.lr,
        "--seed": words.seed,
        "--rollout-seed": words.seed,
    }
    recipe = {name: [places.get(word, word) for word in words] for name, words in recipe_words("tiny").items()}
    del recipe["--colocate"]
    merged = recipe | {name: [str(value)] for name, value in own.items()}
    return [word for name, words in merged.items() for word in (name, *words)]


def summarise(schedule: str, rows: list[dict[str, Any]]) -> Run:
    """The numbers of one run from its metrics file."""
    readings = held_out(rows)
    rounds = [row for row in rows if "perf/step_time" in row]
    later = rounds[1:]

    def mean(name: str, over: list[dict[str, Any]] = later) -> float:
        return statistics.fmean(row[name] for row in over)

    return Run(
        schedule=schedule,
        before=readings[0][1],
        readings=readings[1:],
        rewards=[row["rollout/raw_reward"] for row in rounds],
        round_seconds=mean("perf/step_time"),
        idle=1 - mean("perf/train_time") / mean("perf/step_time"),
        staleness=mean("staleness/mean", rounds),
        staleness_max=max(row["staleness/max"] for row in rounds),
        gap=mean("train/train_rollout_logprob_abs_diff"),
        clipped=mean("train/tis_clipfrac"),
        dropped=sum(row.get("staleness/dropped_groups", 0.0) for row in rounds),
    )


def table(runs: list[Run]) -> str:
    """The runs as Markdown."""
    lines = [
        "| schedule | held-out before | after | updates behind, mean | most | log-prob gap | TIS clipped | s a round "
        "| trainer idle | groups dropped |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        cells = [
            run.schedule, f"{run.before:.3f}", f"{run.readings[-1][1]:.3f}", f"{run.staleness:.2f}",
            f"{run.staleness_max:g}", f"{run.gap:.1e}", f"{run.clipped:.1%}", f"{run.round_seconds:.2f}",
            f"{run.idle:.0%}", f"{run.dropped:g}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(output: Path, record: dict[str, Any], runs: list[Run]) -> None:
    """The three files."""
    whole = record | {"runs": [asdict(run) for run in runs]}
    output.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    panels = [Panel(run.schedule, f"idle {run.idle:.0%}", [[(0, run.before), *run.readings]]) for run in runs]
    title = "Held-out accuracy against the round, by schedule"
    output.with_suffix(".svg").write_text(small_multiples(title, panels), encoding="utf-8")
    text = [
        heading(record),
        f"One seed, {record['rounds']} rounds of {record['prompts']} prompts x 8 answers, on separate processes: one "
        "trains, one serves. Accuracy is of sampled answers at temperature 1. The log-prob gap is between the trainer "
        "and the weights that sampled, which is what TIS corrects. Rounds are counted after the first; a trainer is "
        "idle while it waits for samples, saves or hands its weights over.\n",
        f"The machine ran other jobs beside it (load average {record['load'][0]:.0f} to {record['load'][1]:.0f}), and "
        "two cores carry trainer, engine and driver: the seconds compare the schedules roughly, the accuracies do not "
        "depend on them.\n",
        f"![{title}]({output.name}.svg)\n",
        table(runs),
    ]
    output.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def main() -> None:
    """Run every schedule and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--eval-interval", type=int, default=15)
    parser.add_argument("--prompts", type=int, default=16, help="of a round")
    parser.add_argument("--lr", default="1e-4", help="the recipe's is 4e-4, for 64 prompts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    words = parser.parse_args()
    sizes = f"--rounds {words.rounds} --eval-interval {words.eval_interval} --prompts {words.prompts} --lr {words.lr}"
    record = provenance(f"python bench/fully_async.py {sizes}")
    record |= {"rounds": words.rounds, "prompts": words.prompts, "seed": words.seed}
    loads = []
    with tempfile.TemporaryDirectory(prefix="slime-async-") as scratch:
        make_experiment(Path(scratch, "tiny"), words.seed)
        loads.append(os.getloadavg()[0])
        saves = {schedule: Path(scratch, f"run{number}") for number, schedule in enumerate(SCHEDULES)}
        started = [
            slime(["train", *flags(Path(scratch, "tiny"), save, words), *SCHEDULES[schedule]])
            for schedule, save in saves.items()
        ]
        for process in started:
            end(process)
            loads.append(os.getloadavg()[0])
        runs = [summarise(schedule, read_rows(save / "metrics.jsonl")) for schedule, save in saves.items()]
    write(words.output, record | {"load": [min(loads), max(loads)]}, runs)
    print(table(runs))


if __name__ == "__main__":
    main()
