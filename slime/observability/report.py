"""The report of a run: what each round measured, printed for people and written for machines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from slime.observability.console import Pace, duration, round_line
from slime.observability.evaluation import EvalScores
from slime.observability.writer import MetricsWriter

BEFORE_TRAINING = -1
"""Round number of what is measured before the first round."""
PHASES = tuple(f"perf/{name}_time" for name in ("rollout", "train", "save_model", "update_weights"))


class Report:
    """Collects the metrics of the current round; `finish_round` prints and writes them."""

    def __init__(self, rounds: int, metrics_file: str | None = None, tensorboard_dir: str | None = None) -> None:
        """
        Args:
            rounds: of the whole run.
            metrics_file, tensorboard_dir: see `MetricsWriter`.
        """
        self.rounds = rounds
        self.pace = Pace(rounds)
        self.metrics: dict[str, float] = {}
        self.held_out: dict[str, list[tuple[int, float]]] = {}
        self._writer = MetricsWriter(metrics_file, tensorboard_dir)
        self._begun = time.monotonic()

    def note(self, text: str) -> None:
        """Print a line about the run, with the time since its start."""
        print(f"[{duration(time.monotonic() - self._begun):>6}] {text}", flush=True)

    def start(self, first_round: int) -> None:
        """Training begins now with this round: the estimate of the time left counts from here."""
        self.pace = Pace(self.rounds, first_round)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure a phase of the round as `perf/<name>_time`, in seconds."""
        begun = time.monotonic()
        yield
        self.metrics[f"perf/{name}_time"] = time.monotonic() - begun

    def add(self, metrics: Mapping[str, float], prefix: str = "", notes: Iterable[str] = ()) -> None:
        """Add metrics to the current round, and print what a person should read about them."""
        self.metrics.update({prefix + name: float(value) for name, value in metrics.items()})
        for note in notes:
            self.note(note)

    def finish_round(self, round_id: int) -> None:
        """Print the round's line, write its metrics, and begin the next.

        `perf/step_time` is the sum of the round's phases, `perf/wait_time_ratio` the share of it in which the trainer
        did not train.
        """
        phases = [value for name, value in self.metrics.items() if name in PHASES]
        if "perf/train_time" in self.metrics:
            self.metrics["perf/step_time"] = step = sum(phases)
            self.metrics["perf/wait_time_ratio"] = 1 - self.metrics["perf/train_time"] / max(step, 1e-9)
        left = self.pace.finished()
        self.note(round_line(round_id, self.rounds, self.metrics, left))
        self._writer.write(round_id, self.metrics)
        self.metrics = {}

    def evaluation(self, round_id: int, scores: EvalScores) -> None:
        """Print and write the scores of a held-out set after a round (`BEFORE_TRAINING`: before the first)."""
        when = "before training" if round_id == BEFORE_TRAINING else f"after round {round_id + 1}"
        mean = scores.mean
        text = f"held-out {scores.name} {when}: {mean.value:.3f} (95% {mean.low:.3f}-{mean.high:.3f})"
        if scores.pass_at:
            k = max(scores.pass_at)
            text += f"  pass@{k} {scores.pass_at[k].value:.3f}"
        self.note(text)
        self.held_out.setdefault(scores.name, []).append((round_id, mean.value))
        self._writer.write(round_id, scores.all_metrics())

    def summary(self) -> None:
        """Print what training changed: each held-out set's first and last accuracy."""
        for name, readings in self.held_out.items():
            if len(readings) < 2:
                continue  # one reading says nothing about training
            first, last = readings[0][1], readings[-1][1]
            self.note(f"held-out {name}: {first:.3f} -> {last:.3f} ({last - first:+.3f})")

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
