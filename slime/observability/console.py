"""What a person reads while a run goes on: one line a round, with the time that is left."""

from __future__ import annotations

import time
from collections.abc import Mapping

# Metric, label on the line, format. Absent metrics leave no gap.
COLUMNS = (
    ("rollout/raw_reward", "reward", ".3f"),
    ("rollout/truncated_ratio", "cut", ".1%"),
    ("train/entropy_loss", "entropy", ".3f"),
    ("train/grad_norm", "grad", ".3f"),
    ("train/train_rollout_logprob_abs_diff", "|dlogp|", ".1e"),
    ("perf/rollout_time", "generate", ".1fs"),
    ("perf/train_time", "train", ".1fs"),
    ("perf/update_weights_time", "sync", ".2fs"),
)
# The speed of the last rounds predicts the end better than that of all: the first rounds warm up.
RECENT_ROUNDS = 20


def duration(seconds: float) -> str:
    """Seconds as a person says them: `42s`, `3m05s`, `2h07m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def round_line(round_id: int, total: int, metrics: Mapping[str, float], left: float | None = None) -> str:
    """The line of one round.

    Args:
        round_id: number of the round, from 0.
        total: rounds of the whole run.
        metrics: of this round.
        left: seconds until the end, as far as it is known.
    """
    parts = [f"round {round_id + 1:>{len(str(total))}}/{total}"]
    for name, label, form in COLUMNS:
        if name in metrics:
            unit = "s" if form.endswith("s") else ""
            parts.append(f"{label} {metrics[name]:{form.removesuffix('s')}}{unit}")
    if left is not None:
        parts.append(f"left {duration(left)}")
    return "  ".join(parts)


class Pace:
    """Estimates the time that is left from the last rounds."""

    def __init__(self, total: int, first: int = 0) -> None:
        """
        Args:
            total: rounds of the whole run.
            first: the round that this process starts with.
        """
        self.total = total
        self.next = first
        self._ends = [time.monotonic()]

    def finished(self) -> float:
        """Note the end of a round; returns the seconds that are left."""
        self.next += 1
        self._ends = [*self._ends, time.monotonic()][-RECENT_ROUNDS - 1 :]
        per_round = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        return per_round * (self.total - self.next)
