"""What FP8 training costs in learning: GRPO on the tiny model with each format and scale, against float32.

    python bench/fp8_training.py

Every run is a whole `slime train`, from the same model and problems; the engine serves float32 weights in all of them,
so that the difference of log-probs between trainer and engine is what rounding in the trainer makes. Writes
OUTPUT.json, OUTPUT.md (table) and OUTPUT.svg (curves); runs that are there are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.algorithms import Run, flags_of, measure
from bench.small_multiples import Panel, small_multiples
from bench.tiny_runs import ROOT, heading, provenance, read_rows

VARIANTS = {
    "float32": [],
    "e4m3-blockwise": ["--fp8-format", "e4m3", "--fp8-recipe", "blockwise"],
    "hybrid-blockwise": ["--fp8-format", "hybrid", "--fp8-recipe", "blockwise"],
    "hybrid-tensorwise": ["--fp8-format", "hybrid", "--fp8-recipe", "tensorwise"],
}
GAP = "train/train_rollout_logprob_abs_diff"
NOTE = """\
{rounds} rounds of GRPO on the tiny model, 256 answers a round, two optimizer steps each, the same flags but for
`--fp8-format` and `--fp8-recipe`. Accuracy of sampled answers to 400 held-out problems, 4 each (standard error about
0.016). Difference: mean over trained tokens of |trainer - engine| of log-probs, mean of all rounds; the engine computes
in float32. Seconds are those of a CPU, which has no FP8 product that is faster. The machine ran other jobs at the same
time.

Thin lines are seeds, the thick one their mean, the dashed line is the start.

![Held-out accuracy against the round]({picture})

| trainer | seeds | before | after | gain (least to most) | difference | seconds of a run |
| --- | --- | --- | --- | --- | --- | --- |
"""


def row(name: str, own: list[Run], gaps: dict[str, float]) -> str:
    """One line of the table: means over the seeds."""
    gains = [run.after - run.before for run in own]
    seeds = ", ".join(str(run.seed) for run in own)
    gap = mean(gaps[f"{name}/{run.seed}"] for run in own)
    before, after, seconds = (
        mean(values) for values in zip(*((one.before, one.after, one.seconds) for one in own), strict=True)
    )
    return (
        f"| {name} | {seeds} | {before:.3f} | {after:.3f} | {mean(gains):+.3f} ({min(gains):+.3f} to "
        f"{max(gains):+.3f}) | {gap:.1e} | {seconds:.0f} |"
    )


def write(output: Path, record: dict[str, Any], runs: list[Run], gaps: dict[str, float]) -> None:
    """The three files, from the runs so far."""
    runs.sort(key=lambda run: (list(VARIANTS).index(run.algorithm), run.seed))
    own = {name: found for name in VARIANTS if (found := [run for run in runs if run.algorithm == name])}
    record = record | {"flags": VARIANTS, "differences": gaps, "runs": [asdict(run) for run in runs]}
    output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    note = NOTE.format(rounds=record["rounds"], picture=output.with_suffix(".svg").name)
    lines = "\n".join(row(name, found, gaps) for name, found in own.items())
    output.with_suffix(".md").write_text(f"{heading(record)}\n{note}{lines}\n", encoding="utf-8")
    panels = [
        Panel(name, f"{mean(run.after - run.before for run in found):+.3f}", [run.readings for run in found])
        for name, found in own.items()
    ]
    picture = small_multiples("Held-out accuracy against the round, in float32 and in FP8", panels)
    output.with_suffix(".svg").write_text(picture, encoding="utf-8")


def main() -> None:
    """Run what is missing; write after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--eval-interval", type=int, default=10)
    parser.add_argument("--work", type=Path, default=ROOT / "build/fp8-training", help="models, data and logs")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/fp8-training", help="without a suffix")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    stored = options.output.with_suffix(".json")
    record = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    if record and (record["rounds"], record["flags"]) != (options.rounds, VARIANTS):
        raise SystemExit(f"{stored} has runs of other settings: remove it, or give another --output.")
    runs, gaps = [Run(**run) for run in record.get("runs", [])], record.get("differences", {})
    for seed in options.seeds:
        folder = options.work.resolve() / f"seed-{seed}"
        for name, flags in VARIANTS.items():
            if any((run.algorithm, run.seed) == (name, seed) for run in runs):
                continue
            runs.append(measure(name, [*flags_of("grpo", folder), *flags], seed, folder, options))
            rows = read_rows(folder / name / "metrics.jsonl")
            gaps[f"{name}/{seed}"] = mean(one[GAP] for one in rows if GAP in one)
            made = provenance(f"python bench/fp8_training.py --rounds {options.rounds}")
            write(options.output, made | {"rounds": options.rounds}, runs, gaps)
    print(options.output.with_suffix(".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
