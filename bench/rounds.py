"""What a run measured, round by round: prints a table of the file that `slime train --metrics-file` wrote.

    python bench/rounds.py METRICS.jsonl [--json OUT.json]

Columns: mean reward; mean and largest difference between the trainer's and the sampler's log-probs of trained tokens;
share of responses cut at the limit; norm of the gradient before clipping; seconds of generation (with grading), of
training, and of the weight update. Below it stand the medians without the first round, which loads kernels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLUMNS = {
    "reward": ("rollout/raw_reward", ".3f"),
    "mean gap": ("train/train_rollout_logprob_abs_diff", ".5f"),
    "max gap": ("train/train_rollout_logprob_abs_diff_max", ".4f"),
    "cut": ("rollout/truncated_ratio", ".3f"),
    "grad": ("train/grad_norm", ".3f"),
    "generate s": ("perf/rollout_time", ".3f"),
    "train s": ("perf/train_time", ".3f"),
    "sync s": ("perf/update_weights_time", ".3f"),
}
"""Heading, name in the metrics file, format."""
SCORE = "eval/"


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file, one for each round and evaluation.

    Raises:
        ValueError: a line is not JSON.
    """
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def summarise(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rounds and held-out scores by name, and medians and extremes over the rounds after the first.

    Raises:
        ValueError: fewer than two rounds were trained.
    """
    trained = [record for record in records if COLUMNS["train s"][0] in record]
    if len(trained) < 2:
        raise ValueError(f"{len(trained)} trained round(s); the table needs at least 2, since the first loads kernels")
    rounds = [
        {"round": one["round"] + 1, **{title: one[name] for title, (name, _) in COLUMNS.items()}} for one in trained
    ]
    later = {title: [one[title] for one in rounds[1:]] for title in COLUMNS}
    scores = [
        {"after round": record["round"] + 1, **{k.removeprefix(SCORE): v for k, v in record.items() if k != "round"}}
        for record in records
        if any(name.startswith(SCORE) for name in record)
    ]
    return {
        "rounds": rounds,
        "held_out": scores,
        "median": {title: statistics.median(values) for title, values in later.items()},
        "max": {title: max(values) for title, values in later.items()},
    }


def table(summary: dict[str, Any]) -> str:
    """The summary as text in columns."""
    widths = {title: max(len(title), 8) for title in COLUMNS}
    rows = [("round", summary["rounds"]), ("median", [summary["median"]]), ("max", [summary["max"]])]
    lines = ["  ".join(["round ", *(f"{title:>{width}}" for title, width in widths.items())])]
    for label, entries in rows:
        for one in entries:
            cells = (f"{one[title]:>{width}{COLUMNS[title][1]}}" for title, width in widths.items())
            lines.append("  ".join([f"{one.get('round', label)!s:<6}", *cells]))
    for score in summary["held_out"]:
        values = ", ".join(f"{name} {value:.4f}" for name, value in score.items() if name != "after round")
        lines.append(f"held-out after round {score['after round']}: {values}")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0 printed, 2 unusable input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("metrics", type=Path, help="the file of --metrics-file")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the numbers there too")
    arguments = parser.parse_args(words)
    try:
        summary = summarise(read(arguments.metrics))
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        print(f"rounds: {arguments.metrics}: {error}", file=sys.stderr)
        return 2
    print(table(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
