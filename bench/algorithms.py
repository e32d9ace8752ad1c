"""What each algorithm learns on the tiny model: held-out accuracy against the round, over several seeds.

Every run is the real one: the shell that the lab renders for the `tiny` model, with the algorithm's flags added, into a
Ray cluster of its own on loopback. All runs of a seed start from the same model, with the same problems.

    python bench/algorithms.py --algorithms grpo gspo --seeds 0 1 2

adds what is missing to OUTPUT.json and writes OUTPUT.md (table) and OUTPUT.svg (curves) after every run; a run that is
there already is left out, so that the bench can be stopped and started. `distillation` needs the seed's `grpo` first:
the model that it trained is the teacher.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiny_runs import COLOURS, ROOT, Axes, heading, held_out, provenance, ray_head, read_rows, render_shell, run_stage

FINAL_READINGS = 2  # the last accuracy is the mean of this many readings
WHITENED = "--normalize-advantages"
SUPERVISED = "slime.rollout.sft_rollout.generate_rollout"
GROUPS = ["--n-samples-per-prompt", "8", "--rollout-batch-size", "32"]
ONE_ANSWER = ["--n-samples-per-prompt", "1", "--rollout-batch-size", "256"]
ALGORITHMS: dict[str, list[str]] = {
    "grpo": [],
    "gspo": ["--advantage-estimator", "gspo", "--eps-clip", "3e-4", "--eps-clip-high", "4e-4"],
    "cispo": ["--advantage-estimator", "cispo", "--eps-clip", "1.0", "--eps-clip-high", "4.0"],
    "reinforce++": ["--advantage-estimator", "reinforce_plus_plus", WHITENED],
    "reinforce++-baseline": ["--advantage-estimator", "reinforce_plus_plus_baseline", WHITENED],
    "ppo": ["--advantage-estimator", "ppo", "--critic-lr", "1e-3", "--num-critic-only-steps", "2"],
    "rloo": ["--advantage-estimator", "rloo"],
    "dr-grpo": [
        "--disable-grpo-std-normalization",
        "--custom-pg-loss-reducer-function-path",
        "slime.algorithms.reduction.constant_length_weights",
    ],
    "score-centering": [
        *("--use-score-centering", "--score-centering-top-k", "16", "--use-tis"),
        *("--disable-grpo-std-normalization", "--calculate-per-token-loss"),
    ],
    "sft": [*ONE_ANSWER, "--use-tis=false", "--loss-type", "sft_loss", "--rollout-function-path", SUPERVISED],
    # An answer alone in its group has advantage 0: the teacher is all that it learns from.
    "distillation": [*ONE_ANSWER, "--use-opd", "--opd-type", "megatron", "--opd-kl-coef", "1.0"],
}
STEPS = ["--global-batch-size", "128"]  # two steps a round, so that ratios move and clips have something to do


@dataclass
class Run:
    """One algorithm with one seed.

    Attributes:
        readings: (rounds trained, fraction of sampled held-out answers that are right).
        rewards: mean reward of each round; empty for supervised training.
        teacher_kl: mean reverse KL to the teacher in each round, in nats a token; empty without a teacher.
        seconds: of the whole stage, start of engine and trainer included.
    """

    algorithm: str
    seed: int
    readings: list[tuple[int, float]]
    rewards: list[float]
    teacher_kl: list[float]
    seconds: float

    @property
    def before(self) -> float:
        """Accuracy before the first round."""
        return self.readings[0][1]

    @property
    def after(self) -> float:
        """Mean of the last readings."""
        last = [value for _, value in self.readings[-FINAL_READINGS:]]
        return sum(last) / len(last)


def prepare(folder: Path, seed: int, rounds: int, environment: dict[str, str], log: Any) -> None:
    """Model and problems of a seed, made once, and the conversations that supervised training reads."""
    render_shell(folder, rounds)
    if (folder / "ready").exists():
        return
    for stage in ("prepare", "convert"):
        run_stage([stage], folder, environment | {"SLIME_TINY_SEED": str(seed)}, log)
    rows = [json.loads(line) for line in (folder / "tiny/data/train.jsonl").read_text(encoding="utf-8").splitlines()]
    with (folder / "conversations.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            answer = {"role": "assistant", "content": f"\\boxed{{{row['label']}}}"}
            # The label is not trained on: the shell names its column, and the launcher looks for it.
            messages = [{"role": "user", "content": row["prompt"]}, answer]
            file.write(json.dumps({"prompt": messages, "label": row["label"]}) + "\n")
    (folder / "ready").touch()


def flags_of(algorithm: str, folder: Path) -> list[str]:
    """The algorithm's flags with the files that it needs.

    Raises:
        SystemExit: the teacher of this seed was not trained yet.
    """
    flags = [*GROUPS, *STEPS, *ALGORITHMS[algorithm]]
    if algorithm == "sft":
        return [*flags, "--prompt-data", str(folder / "conversations.jsonl")]
    if algorithm == "distillation":
        teacher = folder / "grpo"
        if not (teacher / "latest_checkpointed_iteration.txt").is_file():
            raise SystemExit(f"distillation learns from the model that grpo trained; run grpo for {folder.name} first")
        return [*flags, "--opd-teacher-load", str(teacher)]
    return flags


def measure(algorithm: str, seed: int, folder: Path, options: argparse.Namespace) -> Run:
    """Prepare the seed and train once."""
    print(f"{algorithm}, seed {seed}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    save = folder / algorithm
    with (
        ray_head(folder, options.port) as environment,
        (folder / f"{algorithm}.log").open("w", encoding="utf-8") as log,
    ):
        prepare(folder, seed, options.rounds, environment, log)
        own = ["--seed", str(seed), "--rollout-seed", str(seed), "--num-rollout", str(options.rounds)]
        own += ["--eval-interval", str(options.eval_interval), "--save", str(save)]
        own += ["--save-interval", str(options.rounds), "--metrics-file", str(save / "metrics.jsonl")]
        # Only what a run says of itself: an earlier one that was stopped must not be read as this one's beginning.
        (save / "metrics.jsonl").unlink(missing_ok=True)
        seconds = run_stage(["train", *own, *flags_of(algorithm, folder)], folder, environment, log)
    rows = read_rows(save / "metrics.jsonl")
    rounds = [row for row in rows if "train/loss" in row or "train/critic-loss" in row]
    return Run(
        algorithm=algorithm,
        seed=seed,
        readings=held_out(rows),
        rewards=[row["rollout/raw_reward"] for row in rounds if "rollout/raw_reward" in row],
        teacher_kl=[row["train/opd_reverse_kl"] for row in rounds if "train/opd_reverse_kl" in row],
        seconds=round(seconds, 1),
    )


def table(runs: list[Run]) -> str:
    """One row an algorithm, means and ranges over its seeds."""
    lines = [
        "| algorithm | seeds | before | after | gain (least to most) | teacher KL |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in ALGORITHMS:
        own = [run for run in runs if run.algorithm == name]
        if not own:
            lines.append(f"| {name} | not run | | | | |")
            continue
        gains = [run.after - run.before for run in own]
        kl = [f"{run.teacher_kl[0]:.3f} to {run.teacher_kl[-1]:.3f}" for run in own if run.teacher_kl]
        before, after = (sum(values) / len(own) for values in ([r.before for r in own], [r.after for r in own]))
        seeds = ", ".join(str(run.seed) for run in own)
        lines.append(
            f"| {name} | {seeds} | {before:.3f} | {after:.3f} | {sum(gains) / len(own):+.3f} "
            f"({min(gains):+.3f} to {max(gains):+.3f}) | {'; '.join(kl)} |"
        )
    return "\n".join(lines)


def curves(runs: list[Run]) -> str:
    """Held-out accuracy against the round: a line for each run, one colour for each algorithm."""
    axes = Axes("Held-out accuracy of each algorithm", max(run.readings[-1][0] for run in runs), height=400)
    axes.bottom = 76
    names = [name for name in ALGORITHMS if any(run.algorithm == name for run in runs)]
    for at, (name, colour) in enumerate(zip(names, (*COLOURS, "#d04040"), strict=False)):
        for run in runs:
            if run.algorithm == name:
                axes.line([(number, value) for number, value in run.readings], colour, 'stroke-width="1.5"')
        axes.text(axes.left + 148 * (at % 4), axes.height - 40 + 16 * (at // 4), name, colour=colour)
    return axes.svg()


def write(output: Path, runs: list[Run], command: str, options: argparse.Namespace) -> None:
    """The three files, from all runs so far."""
    runs.sort(key=lambda run: (list(ALGORITHMS).index(run.algorithm), run.seed))
    flags = {name: " ".join([*GROUPS, *STEPS, *words]) for name, words in ALGORITHMS.items()}
    record = provenance(command) | {"rounds": options.rounds, "flags": flags, "runs": [asdict(run) for run in runs]}
    output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    note = (
        f"{options.rounds} rounds of 256 answers, 8 to a prompt (supervised training and distillation: 1), two "
        "optimizer steps a round. Accuracy of sampled answers to 400 held-out problems, 4 each, at temperature 1 "
        f"(standard error about 0.012); «after» is the mean of the last {FINAL_READINGS} readings. Teacher KL: mean "
        "reverse KL to the teacher on the student's own tokens, in nats a token, in the first and the last round.\n"
    )
    output.with_suffix(".md").write_text(f"{heading(record)}\n{note}\n{table(runs)}\n", encoding="utf-8")
    output.with_suffix(".svg").write_text(curves(runs), encoding="utf-8")


def main() -> None:
    """Run what is missing; write after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--eval-interval", type=int, default=10)
    parser.add_argument("--port", type=int, default=8485, help="of the Ray dashboard; the next one is the head's")
    parser.add_argument("--work", type=Path, default=ROOT / "build/algorithms", help="models, data and logs")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/algorithms", help="without a suffix")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    stored = options.output.with_suffix(".json")
    runs = [Run(**run) for run in json.loads(stored.read_text(encoding="utf-8"))["runs"]] if stored.exists() else []
    command = f"python bench/algorithms.py --rounds {options.rounds} --eval-interval {options.eval_interval}"
    for seed in options.seeds:
        for algorithm in options.algorithms:
            if not any((run.algorithm, run.seed) == (algorithm, seed) for run in runs):
                runs.append(measure(algorithm, seed, options.work.resolve() / f"seed-{seed}", options))
                write(options.output, runs, command, options)
    print(table(runs))


if __name__ == "__main__":
    main()
