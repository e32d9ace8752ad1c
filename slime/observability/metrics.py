"""Metrics of one round's samples. Names are slime's: `rollout/...`, `eval/<name>`."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from slime.data.sample import Sample, Status

Metrics = dict[str, float]


def rollout_metrics(groups: Sequence[Sequence[Sample]], weight_version: int) -> Metrics:
    """What a round's samples look like.

    Args:
        groups: graded samples, those of one prompt together.
        weight_version: version of the weights that the engines hold.

    Returns:
        `rollout/raw_reward`: mean reward. `rollout/response_len/{mean,median,max,min}`: trained tokens of a response.
        `rollout/truncated_ratio`: share of responses cut at the limit. `rollout/zero_std_ratio`: share of groups whose
        rewards are all equal, which teach nothing. `rollout/log_probs`: mean log-prob of a sampled token.
        `rollout/verdict/<kind>`: share of each of the grader's verdicts. `rollout/weight_version`: `weight_version`.
        `staleness/{mean,max}`: how many versions older the weights were that generated a sample.
    """
    samples = [sample for group in groups for sample in group]
    lengths = [sample.effective_response_length() for sample in samples]
    constant = sum(1 for group in groups if len({sample.reward for sample in group}) == 1)
    log_probs = [value for sample in samples for value in sample.rollout_log_probs or ()]
    metrics = {
        "rollout/raw_reward": statistics.fmean(sample.reward or 0.0 for sample in samples),
        "rollout/response_len/mean": statistics.fmean(lengths),
        "rollout/response_len/median": float(statistics.median(lengths)),
        "rollout/response_len/max": float(max(lengths)),
        "rollout/response_len/min": float(min(lengths)),
        "rollout/truncated_ratio": _share(sample.status is Status.TRUNCATED for sample in samples),
        "rollout/zero_std_ratio": constant / len(groups),
    }
    ages = [weight_version - min(map(int, sample.weight_versions)) for sample in samples]
    metrics |= {
        "rollout/weight_version": float(weight_version),
        "staleness/mean": statistics.fmean(ages),
        "staleness/max": float(max(ages)),
    }
    if log_probs:
        metrics["rollout/log_probs"] = statistics.fmean(log_probs)
    verdicts = Counter(sample.verdict or "ungraded" for sample in samples)
    return metrics | {f"rollout/verdict/{kind}": count / len(samples) for kind, count in sorted(verdicts.items())}


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values)
