"""Accuracy and pass@k of a held-out set, each with an interval that says how far the number can be trusted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z_95 = statistics.NormalDist().inv_cdf(0.975)
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value in the unit of the scores, and its 95 % interval."""

    value: float
    low: float
    high: float


def pass_at_k(n: int, correct: int, k: int) -> float:
    """The unbiased estimate of the probability that at least one of k responses is right: 1 - C(n-c, k) / C(n, k).

    Chen et al., arXiv 2107.03374, equation 1. It is the share of all subsets of k responses that hold a right one.

    Args:
        n: responses that were sampled.
        correct: how many of them are right.
        k: from 1 to n.

    Raises:
        ValueError: k above n (nothing is known about more responses than were sampled), or counts that disagree.
    """
    if not 1 <= k <= n or not 0 <= correct <= n:
        raise ValueError(f"pass@{k} of {n} responses with {correct} right: k lies in 1..n, the right ones in 0..n.")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def ks(n: int) -> list[int]:
    """The k that are worth a metric: powers of two up to n, and n itself; none for a single response."""
    if n < 2:
        return []
    powers = [1 << power for power in range(n.bit_length()) if 1 << power <= n]
    return powers if powers[-1] == n else [*powers, n]


def wilson(mean: float, size: float, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share in [0, 1].

    Unlike mean ± z·SE it stays inside [0, 1] and does not shrink to nothing when all answers are right.

    Args:
        mean: the observed share.
        size: number of independent observations; may be fractional.
        z: quantile of the normal distribution.
    """
    centre = (mean + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * math.sqrt(mean * (1 - mean) / size + z * z / (4 * size * size))
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_estimate(groups: Sequence[Sequence[float]]) -> Estimate:
    """The mean score, over prompts, with an interval that knows that answers to one prompt are alike.

    For scores in [0, 1] it is Wilson's, with the number of *independent* observations, p(1-p) / SE², where SE is the
    standard error between prompts: between the number of prompts and that of answers. For other scores it is normal.

    Args:
        groups: the scores of each prompt's answers, at least one group, none empty.
    """
    means = [statistics.fmean(group) for group in groups]
    mean = statistics.fmean(means)
    error = standard_error(means)
    if all(0 <= score <= 1 for group in groups for score in group):
        spread = mean * (1 - mean)
        answers = sum(map(len, groups))
        size = min(max(spread / error**2, len(groups)), answers) if error > 0 else len(groups)
        return Estimate(mean, *wilson(mean, size))
    return Estimate(mean, mean - Z_95 * error, mean + Z_95 * error)


def standard_error(means: Sequence[float]) -> float:
    """Of the mean of `means`, which are independent; 0.0 for a single one."""
    return statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0


def pass_at_k_estimate(counts: Sequence[tuple[int, int]], k: int) -> Estimate:
    """pass@k, over prompts.

    The interval is a bootstrap over prompts (Efron 1979, percentiles of 2,000 resamples, fixed seed); where all prompts
    agree, which a bootstrap cannot see beyond, it is Wilson's.

    Args:
        counts: (responses, right ones) of each prompt.
        k: at most the responses of every prompt.
    """
    values = np.array([pass_at_k(n, correct, k) for n, correct in counts])
    mean = float(values.mean())
    if len(values) == 1 or float(values.max()) == float(values.min()):
        return Estimate(mean, *wilson(mean, len(values)))
    draws = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5])
    return Estimate(mean, float(low), float(high))
