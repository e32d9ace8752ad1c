"""pass@k against counting, intervals against their definitions and against simulation."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest

from slime.observability.estimates import ks, mean_estimate, pass_at_k, pass_at_k_estimate, wilson


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_right_answer(n: int) -> None:
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        right = [position < correct for position in range(n)]
        subsets = list(itertools.combinations(right, k))
        share = sum(map(any, subsets)) / len(subsets)
        assert pass_at_k(n, correct, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_k_is_unbiased() -> None:
    """Its exact expectation over the binomial count is 1 - (1-p)^k, which the plug-in 1 - (1-c/n)^k misses."""
    n, k, p = 8, 4, 0.2
    weights = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    truth = 1 - (1 - p) ** k
    assert sum(w * pass_at_k(n, c, k) for c, w in enumerate(weights)) == pytest.approx(truth, abs=1e-12)
    plug_in = sum(w * (1 - (1 - c / n) ** k) for c, w in enumerate(weights))
    assert abs(plug_in - truth) > 0.02


@pytest.mark.parametrize(("n", "correct", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_it_cannot_know(n: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match=rf"pass@{k} of {n} responses"):
        pass_at_k(n, correct, k)


def test_ks() -> None:
    assert [ks(n) for n in (1, 2, 3, 8, 12)] == [[], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 12]]


@pytest.mark.parametrize(("mean", "size"), [(0.0, 5), (0.3, 10), (0.5, 400), (1.0, 8)])
def test_wilson_solves_its_equation(mean: float, size: float) -> None:
    """The ends are the shares p with |mean - p| = z sqrt(p (1-p) / size)."""
    z = 1.959963984540054
    for end in wilson(mean, size):
        assert 0 <= end <= 1
        assert (mean - end) ** 2 == pytest.approx(z * z * end * (1 - end) / size, abs=1e-12)


def test_the_interval_of_a_mean_covers_the_truth_although_answers_to_a_prompt_are_alike() -> None:
    """Prompts differ in difficulty; an interval that took every answer for independent would cover far less."""
    draw = np.random.default_rng(0)
    truth, covered, naive = 0.5, 0, 0
    for _ in range(400):
        solved = draw.beta(0.5, 0.5, size=40)
        groups = [list(draw.binomial(1, p, size=8).astype(float)) for p in solved]
        estimate = mean_estimate(groups)
        covered += estimate.low <= truth <= estimate.high
        low, high = wilson(estimate.value, 320)
        naive += low <= truth <= high
    assert 0.92 <= covered / 400 <= 0.98
    assert naive / 400 < 0.75


def test_certain_results_keep_an_honest_interval() -> None:
    estimate = mean_estimate([[1.0, 1.0]] * 20)
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx(20 / (20 + 1.959963984540054**2))
    assert pass_at_k_estimate([(4, 4)] * 20, 2).low == pytest.approx(estimate.low)


def test_scores_outside_the_unit_interval_get_a_normal_interval() -> None:
    groups = [[-1.0], [1.0], [1.0], [-1.0], [1.0]]
    estimate = mean_estimate(groups)
    error = statistics.stdev(group[0] for group in groups) / 5**0.5
    assert estimate.value == pytest.approx(0.2)
    assert estimate.high - estimate.value == pytest.approx(1.959963984540054 * error)


def test_the_interval_of_pass_at_k_covers_the_truth() -> None:
    draw = np.random.default_rng(1)
    truth = 1 - math.prod((0.5 + i) / (1 + i) for i in range(4))  # E[1 - (1-p)^4] for p ~ Beta(1/2, 1/2)
    covered = 0
    for _ in range(300):
        counts = [(8, int(draw.binomial(8, p))) for p in draw.beta(0.5, 0.5, size=60)]
        estimate = pass_at_k_estimate(counts, 4)
        covered += estimate.low <= truth <= estimate.high
    assert 0.90 <= covered / 300 <= 0.98
