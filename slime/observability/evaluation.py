"""Scores of a held-out set: accuracy, pass@k, lengths; each share with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slime.data.sample import Sample
from slime.observability.estimates import Estimate, ks, mean_estimate, pass_at_k_estimate, standard_error
from slime.observability.metrics import Metrics, length_metrics

CORRECT = 1.0
"""The reward of a right answer, by which pass@k counts."""


@dataclass(frozen=True, slots=True)
class EvalScores:
    """What one evaluation of one set found.

    Attributes:
        name: of the set.
        mean: mean reward over prompts, with its 95 % interval.
        standard_error: of the mean, over prompts, whose answers are not independent of each other.
        pass_at: pass@k by k; empty for a single answer a prompt.
        truncated_ratio: share of responses cut at their limit.
        samples: number of responses.
        metrics: further numbers by their full names.
    """

    name: str
    mean: Estimate
    standard_error: float
    pass_at: dict[int, Estimate]
    truncated_ratio: float
    samples: int
    metrics: Metrics = field(default_factory=dict)

    def all_metrics(self) -> Metrics:
        """Every number by its full name: ``eval/<name>``, ``eval/<name>-pass@k``, ..."""
        prefix = f"eval/{self.name}"
        found = {
            prefix: self.mean.value,
            f"{prefix}-ci95_low": self.mean.low,
            f"{prefix}-ci95_high": self.mean.high,
            f"{prefix}-standard_error": self.standard_error,
            f"{prefix}-truncated_ratio": self.truncated_ratio,
        }
        for k, estimate in self.pass_at.items():
            found[f"{prefix}-pass@{k}"] = estimate.value
            found[f"{prefix}-pass@{k}-ci95_low"] = estimate.low
            found[f"{prefix}-pass@{k}-ci95_high"] = estimate.high
        return {**found, **self.metrics}


def eval_scores(name: str, data: Mapping[str, Any], extra: Mapping[str, float]) -> EvalScores:
    """Scores of one set.

    Args:
        name: of the set.
        data: ``rewards`` and ``truncated``, one of each for every sample; ``samples`` may be absent.
        extra: numbers by full name; those that begin with ``eval/<name>`` are kept.
    """
    rewards = [float(value) for value in data["rewards"]]
    samples: Sequence[Sample] = data.get("samples") or ()
    groups = _by_prompt(rewards, samples)
    means = [statistics.fmean(group) for group in groups]
    least = min(map(len, groups))
    counts = [(len(group), sum(reward == CORRECT for reward in group)) for group in groups]
    return EvalScores(
        name=name,
        mean=mean_estimate(groups),
        standard_error=standard_error(means),
        pass_at={k: pass_at_k_estimate(counts, k) for k in ks(least)},
        truncated_ratio=statistics.fmean(map(float, data["truncated"])),
        samples=len(rewards),
        metrics={
            **({f"eval/{name}/{key}": value for key, value in length_metrics(samples).items()} if samples else {}),
            **{key: value for key, value in extra.items() if key.startswith(f"eval/{name}")},
        },
    )


def _by_prompt(rewards: Sequence[float], samples: Sequence[Sample]) -> list[list[float]]:
    if len(samples) != len(rewards):
        return [[reward] for reward in rewards]
    groups: dict[Any, list[float]] = {}
    for position, (reward, sample) in enumerate(zip(rewards, samples, strict=True)):
        key = ("alone", position) if sample.group_index is None else sample.group_index
        groups.setdefault(key, []).append(reward)
    return list(groups.values())
