"""What each algorithm learns on the tiny model: held-out accuracy against the round, over several seeds.

Every run is a real one: `slime train` with the flags that all share and the algorithm's own, in a Ray cluster of its
own. All runs of a seed start from the same model, with the same problems.

    python bench/algorithms.py --algorithms grpo gspo --seeds 0 1 2

adds what is missing to OUTPUT.json and writes OUTPUT.md (table) and OUTPUT.svg (curves) after every run; a run that is
there already is left out, so that the bench can be stopped and started. An OUTPUT.json with runs of other settings is
refused. `distillation` needs the seed's `grpo` first: the model that it trained is the teacher.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.small_multiples import Panel, small_multiples
from bench.tiny_runs import ROOT, heading, held_out, provenance, read_rows, run_command

COMMON = [
    *("--device", "cpu", "--colocate", "--actor-num-gpus-per-node", "1"),
    *("--input-key", "prompt", "--label-key", "label", "--apply-chat-template", "--rollout-shuffle"),
    *("--rm-type", "math", "--rollout-max-response-len", "8", "--n-samples-per-eval-prompt", "4"),
    *("--use-dynamic-batch-size", "--max-tokens-per-gpu", "8192", "--attention-dropout", "0", "--hidden-dropout", "0"),
    *("--optimizer", "adam", "--weight-decay", "0.1", "--adam-beta1", "0.9", "--adam-beta2", "0.98"),
    # The tiny recipe's rate, 4e-4, is that of a step of 512 answers. With a quarter of them it is too much: CISPO and
    # REINFORCE, whose second step of a round no clip stops, then lose accuracy, and the clipped losses gain less.
    *("--lr", "1e-4", "--lr-warmup-iters", "10"),
    *("--global-batch-size", "128"),  # two steps a round, so that ratios move and clips have something to do
]
TIS = ["--use-tis", "--tis-clip-low", "0", "--tis-clip", "2"]
GROUPS = [*TIS, "--n-samples-per-prompt", "8", "--rollout-batch-size", "32"]
ONE_ANSWER = ["--n-samples-per-prompt", "1", "--rollout-batch-size", "256"]
CLIP = [*GROUPS, "--eps-clip", "0.2", "--eps-clip-high", "0.28"]
WHITENED = "--normalize-advantages"
SUPERVISED = "slime.rollout.sft_rollout.generate_rollout"
ALGORITHMS: dict[str, list[str]] = {
    "grpo": [*CLIP],
    "gspo": [*GROUPS, "--advantage-estimator", "gspo", "--eps-clip", "3e-4", "--eps-clip-high", "4e-4"],
    "cispo": [*GROUPS, "--advantage-estimator", "cispo", "--eps-clip", "1.0", "--eps-clip-high", "4.0"],
    "reinforce++": [*CLIP, "--advantage-estimator", "reinforce_plus_plus", WHITENED],
    "reinforce++-baseline": [*CLIP, "--advantage-estimator", "reinforce_plus_plus_baseline", WHITENED],
    # The head of a critic starts from zeros: it learns faster, and two rounds before the policy moves.
    "ppo": [*CLIP, "--advantage-estimator", "ppo", "--critic-lr", "1e-3", "--num-critic-only-steps", "2"],
    "rloo": [*CLIP, "--advantage-estimator", "rloo"],
    "dr-grpo": [
        *(*CLIP, "--disable-grpo-std-normalization"),
        *("--custom-pg-loss-reducer-function-path", "slime.algorithms.reduction.constant_length_weights"),
    ],
    "score-centering": [
        *(*GROUPS, "--use-score-centering", "--score-centering-top-k", "16"),
        *("--disable-grpo-std-normalization", "--calculate-per-token-loss"),
    ],
    "sft": [*ONE_ANSWER, "--loss-type", "sft_loss", "--rollout-function-path", SUPERVISED],
    # An answer alone in its group has advantage 0: the teacher is all that it learns from.
    "distillation": [
        *(*ONE_ANSWER, *TIS, "--eps-clip", "0.2", "--eps-clip-high", "0.28"),
        *("--use-opd", "--opd-type", "megatron", "--opd-kl-coef", "1.0"),
    ],
}


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
        """Accuracy after the last round."""
        return self.readings[-1][1]


def slime(words: list[str], folder: Path, log: Any) -> float:
    """Run `slime` with these words; returns its seconds."""
    environment = os.environ | {"RAY_ADDRESS": "local", "OMP_NUM_THREADS": "1"}
    return run_command([sys.executable, "-m", "slime", *words], folder, environment, log)


def prepare(folder: Path, seed: int, log: Any) -> None:
    """Model and problems of a seed, made once, and the conversations that supervised training reads."""
    if (folder / "ready").exists():
        return
    tiny = folder / "tiny"
    slime(["tiny", "--output", str(tiny), "--seed", str(seed)], folder, log)
    convert = ["convert", "hf-to-megatron", "--hf-checkpoint", str(tiny / "hf"), "--save", str(tiny / "torch_dist")]
    slime([*convert, "--device", "cpu"], folder, log)
    rows = [json.loads(line) for line in (folder / "tiny/data/train.jsonl").read_text(encoding="utf-8").splitlines()]
    with (folder / "conversations.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            answer = {"role": "assistant", "content": f"\\boxed{{{row['label']}}}"}
            # The label is not trained on: `--label-key` names its column, and the launcher looks for it.
            messages = [{"role": "user", "content": row["prompt"]}, answer]
            file.write(json.dumps({"prompt": messages, "label": row["label"]}) + "\n")
    (folder / "ready").touch()


def flags_of(algorithm: str, folder: Path) -> list[str]:
    """The algorithm's flags with the files that it needs.

    Raises:
        SystemExit: the teacher of this seed was not trained yet.
    """
    flags = [*COMMON, *ALGORITHMS[algorithm]]
    if algorithm == "sft":
        return [*flags, "--prompt-data", str(folder / "conversations.jsonl")]
    flags += ["--prompt-data", str(folder / "tiny/data/train.jsonl")]
    if algorithm == "distillation":
        teacher = folder / "grpo"
        if not (teacher / "latest_checkpointed_iteration.txt").is_file():
            raise SystemExit(f"distillation learns from the model that grpo trained; run grpo for {folder.name} first")
        return [*flags, "--opd-teacher-load", str(teacher)]
    return flags


def measure(name: str, flags: list[str], seed: int, folder: Path, options: argparse.Namespace) -> Run:
    """Prepare the seed and train once.

    Args:
        name: of the run; its checkpoints and log lie below `folder` under it.
        flags: besides those about files, rounds and the seed, see `flags_of`.
        options: has rounds and eval_interval.
    """
    print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    tiny, save = folder / "tiny", folder / name
    own = ["--hf-checkpoint", str(tiny / "hf"), "--ref-load", str(tiny / "torch_dist"), "--save", str(save)]
    own += ["--seed", str(seed), "--rollout-seed", str(seed), "--num-rollout", str(options.rounds)]
    own += ["--eval-prompt-data", "heldout", str(tiny / "data/heldout.jsonl")]
    own += ["--eval-interval", str(options.eval_interval), "--save-interval", str(options.rounds)]
    own += ["--metrics-file", str(save / "metrics.jsonl")]
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        prepare(folder, seed, log)
        # Only what a run says of itself: an earlier one that was stopped must not be read as this one's beginning.
        (save / "metrics.jsonl").unlink(missing_ok=True)
        seconds = slime(["train", *own, *flags], folder, log)
    rows = read_rows(save / "metrics.jsonl")
    rounds = [row for row in rows if "train/loss" in row or "train/critic-loss" in row]
    return Run(
        algorithm=name,
        seed=seed,
        readings=held_out(rows),
        rewards=[row["rollout/raw_reward"] for row in rounds if "rollout/raw_reward" in row],
        teacher_kl=[row["train/opd_reverse_kl"] for row in rounds if "train/opd_reverse_kl" in row],
        seconds=round(seconds, 1),
    )


def summary(runs: list[Run]) -> dict[str, dict[str, float]]:
    """Means over the seeds of each algorithm that has runs, and its least and largest gain."""
    found: dict[str, dict[str, float]] = {}
    for name in ALGORITHMS:
        own = [run for run in runs if run.algorithm == name]
        if not own:
            continue
        gains = [run.after - run.before for run in own]
        columns = {
            "before": [run.before for run in own],
            "after": [run.after for run in own],
            "gain": gains,
            "teacher_kl_first": [run.teacher_kl[0] for run in own if run.teacher_kl],
            "teacher_kl_last": [run.teacher_kl[-1] for run in own if run.teacher_kl],
        }
        found[name] = {"seeds": len(own), "least": min(gains), "most": max(gains)}
        found[name] |= {column: sum(values) / len(values) for column, values in columns.items() if values}
    return found


def table(runs: list[Run]) -> str:
    """One row an algorithm, means and ranges over its seeds."""
    lines = [
        "| algorithm | seeds | before | after | gain (least to most) | teacher KL |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    means = summary(runs)
    for name in ALGORITHMS:
        if name not in means:
            lines.append(f"| {name} | not measured | | | | |")
            continue
        row = means[name]
        seeds = ", ".join(str(run.seed) for run in runs if run.algorithm == name)
        kl = f"{row['teacher_kl_first']:.3f} to {row['teacher_kl_last']:.3f}" if "teacher_kl_first" in row else ""
        lines.append(
            f"| {name} | {seeds} | {row['before']:.3f} | {row['after']:.3f} | {row['gain']:+.3f} "
            f"({row['least']:+.3f} to {row['most']:+.3f}) | {kl} |"
        )
    return "\n".join(lines)


def curves(runs: list[Run]) -> str:
    """Held-out accuracy against the round: a panel for each algorithm, with its seeds, their mean and their range."""
    means = summary(runs)
    panels = [
        Panel(
            name,
            f"{means[name]['gain']:+.3f}" if name in means else "not measured",
            [run.readings for run in runs if run.algorithm == name],
        )
        for name in ALGORITHMS
    ]
    return small_multiples("Held-out accuracy of each algorithm against the round", panels)


def stored_runs(output: Path, rounds: int) -> tuple[dict[str, Any], list[Run]]:
    """What OUTPUT.json has: its provenance, and the runs.

    Raises:
        SystemExit: they were made with other settings.
    """
    file = output.with_suffix(".json")
    if not file.exists():
        return {}, []
    record = json.loads(file.read_text(encoding="utf-8"))
    flags = all_flags()
    changed = [name for name in flags if any(run["algorithm"] == name for run in record["runs"])]
    changed = [name for name in changed if record["flags"].get(name) != flags[name]]
    what = f"flags of {', '.join(changed)}" if changed else ""
    if record["rounds"] != rounds:
        what = f"{record['rounds']} rounds, now {rounds}"
    if what:
        raise SystemExit(
            f"{file} has runs of other settings ({what}), and a table compares runs of one set: remove the file, or "
            "give another --output."
        )
    return record, [Run(**run) for run in record["runs"]]


def all_flags() -> dict[str, str]:
    """The flags of each algorithm, but for paths, seeds and rounds."""
    return {name: " ".join([*COMMON, *words]) for name, words in ALGORITHMS.items()}


NOTE = """\
{rounds} rounds of 256 answers, 8 to a prompt (supervised training and distillation: 1), two optimizer steps a round.
Accuracy of sampled answers to 400 held-out problems, 4 each, at temperature 1 (standard error about 0.016). Teacher KL:
mean reverse KL to the teacher on the student's own tokens, in nats a token, in the first and the last round. The
machine ran other jobs at the same time.

All share a learning rate of 1e-4, a quarter of the tiny recipe's as a step has a quarter of its answers. At 4e-4 CISPO
and score centering do not gain: no clip stops the second step of a round. Clips are those of each paper; PPO's critic
has a rate of its own and two rounds alone; score centering comes without division by the deviation and with a mean over
tokens, as the lab renders it. Nothing else was tuned, so the table shows that each learns, not which is best. The flags
of each are in the JSON file.

Thin lines are seeds, the thick one their mean, the band runs from the least to the most, the dashed line is the start.

![Held-out accuracy against the round]({picture})
"""


def write(output: Path, record: dict[str, Any], runs: list[Run]) -> None:
    """The three files, from the runs so far.

    Args:
        record: command, day, machine and versions of the last run.
    """
    runs.sort(key=lambda run: (list(ALGORITHMS).index(run.algorithm), run.seed))
    record = record | {"flags": all_flags(), "summary": summary(runs), "runs": [asdict(run) for run in runs]}
    output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    note = NOTE.format(rounds=record["rounds"], picture=output.with_suffix(".svg").name)
    output.with_suffix(".md").write_text(f"{heading(record)}\n{note}\n{table(runs)}\n", encoding="utf-8")
    output.with_suffix(".svg").write_text(curves(runs), encoding="utf-8")


def main() -> None:
    """Run what is missing; write after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--eval-interval", type=int, default=10)
    parser.add_argument("--work", type=Path, default=ROOT / "build/algorithms", help="models, data and logs")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/algorithms", help="without a suffix")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    record, runs = stored_runs(options.output, options.rounds)
    command = f"python bench/algorithms.py --rounds {options.rounds} --eval-interval {options.eval_interval}"
    for seed in options.seeds:
        for algorithm in options.algorithms:
            if not any((run.algorithm, run.seed) == (algorithm, seed) for run in runs):
                folder = options.work.resolve() / f"seed-{seed}"
                runs.append(measure(algorithm, flags_of(algorithm, folder), seed, folder, options))
                record = provenance(command) | {"rounds": options.rounds}
                write(options.output, record, runs)
    if runs:
        write(options.output, record, runs)  # what was measured before, in the words of today
    print(table(runs))


if __name__ == "__main__":
    main()
