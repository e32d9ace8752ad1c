"""The formulas of the guides against independent values: counted, simulated, summed over whole distributions."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path

import pytest

from slime.experiment.facts import load_facts
from sphinx_slime_lab import formulas
from sphinx_slime_lab.calculation import CalculationError, Sources, calculate, names

SOURCES = Sources(load_facts(), Path(__file__).parents[2] / "bench/results")


@pytest.mark.parametrize("right", range(1, 8))
def test_advantages_are_standard_scores_of_the_sample(right: int) -> None:
    rewards = [1] * right + [0] * (8 - right)
    for reward in (0, 1):
        score = (reward - statistics.fmean(rewards)) / statistics.stdev(rewards)
        assert formulas.advantage(right, 8 - right, reward) == pytest.approx(score, rel=1e-5)


def test_a_group_that_agrees_teaches_nothing() -> None:
    assert formulas.advantage(8, 0, 1) == 0 and formulas.advantage(0, 8, 0) == 0


def test_chance_of_a_mixed_group_is_counted() -> None:
    def chance(answers: tuple[int, ...]) -> float:
        return math.prod(0.3 if one else 0.7 for one in answers)

    mixed = sum(chance(one) for one in itertools.product((0, 1), repeat=5) if 0 < sum(one) < 5)
    assert formulas.mixed_probability(0.3, 5) == pytest.approx(mixed)


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 1), (4, 8), (8, 5), (3, 30)])
def test_the_bubble_is_the_idle_time_of_a_simulated_schedule(stages: int, micro_batches: int) -> None:
    for backward in (1, 2, 3):
        blocks = formulas.schedule(stages, micro_batches, backward)
        assert formulas.idle_share(blocks) == pytest.approx(formulas.bubble(stages, micro_batches))


@pytest.mark.parametrize(("stages", "share"), [(4, 0.1), (8, 0.05), (2, 0.5), (16, 0.33)])
def test_as_many_micro_batches_as_needed_and_no_more(stages: int, share: float) -> None:
    fewest = formulas.micro_batches_for(stages, share)
    assert formulas.bubble(stages, fewest) <= share + 1e-12
    assert fewest == 1 or formulas.bubble(stages, fewest - 1) > share


def test_zero_divides_one_part_more_at_each_stage() -> None:
    assert [formulas.zero_bytes(stage, 8) for stage in range(4)] == [18, 6 + 12 / 8, 2 + 16 / 8, 18 / 8]


@pytest.mark.parametrize(("tokens", "ranks"), [(8, 2), (24, 3), (64, 4)])
def test_pairs_are_counted(tokens: int, ranks: int) -> None:
    everything = sum(1 for query in range(tokens) for key in range(tokens) if key <= query)
    for kind in ("zigzag", "allgather"):
        each = [formulas.pairs_of_rank(tokens, ranks, rank, kind) for rank in range(ranks)]
        assert sum(each) == everything
        assert (len(set(each)) == 1) == (kind == "zigzag")
    assert [formulas.pairs_of_rank(8, 2, rank, "allgather") for rank in (0, 1)] == [10, 26]


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_accepted_tokens_are_the_mean_of_their_distribution(depth: int) -> None:
    rate = 0.7
    chances = [rate**count * (1 - rate) for count in range(depth)] + [rate**depth]
    mean = sum((count + 1) * chance for count, chance in enumerate(chances))
    assert formulas.accepted(rate, depth) == pytest.approx(mean)
    assert formulas.accepted(1, depth) == depth + 1


def test_the_best_depth_is_the_best() -> None:
    depth = formulas.best_depth(0.8, 0.1)
    gains = {one: formulas.speculative_speedup(0.8, one, 0.1) for one in range(1, 17)}
    assert gains[depth] == max(gains.values()) > 1
    assert formulas.speculative_speedup(0.2, 4, 0.5) < 1, "a bad draft costs time"


@pytest.mark.parametrize("mean", [0.0, 0.4, 1.0, 1.25, 2.5])
def test_shares_of_ages_are_a_distribution_with_that_mean(mean: float) -> None:
    shares = [formulas.age_share(age, mean) for age in range(5)]
    assert sum(shares) == pytest.approx(1)
    assert sum(age * share for age, share in enumerate(shares)) == pytest.approx(mean)
    # The same from starts spread evenly over an interval.
    starts = [(one + 0.5) / 1000 for one in range(1000)]
    for age, share in enumerate(shares):
        assert share == pytest.approx(sum(math.floor(start + mean) == age for start in starts) / 1000, abs=2e-3)


def test_limits_of_weights_and_clip() -> None:
    assert [formulas.truncated(one) for one in (0.25, 1, 4)] == [0.25, 1, 2]
    assert [formulas.icepop(one) for one in (0.25, 0.5, 2, 4)] == [0, 0.5, 2, 0]
    assert formulas.clipped(1.5, 1, 0.2, 0.28) == pytest.approx(1.28)
    assert formulas.clipped(0.5, -1, 0.2, 0.28) == pytest.approx(-0.8)
    assert formulas.clipped(1.5, -1, 0.2, 0.28) == pytest.approx(-1.5), "a worse token is never let off"


def test_rates_and_sizes() -> None:
    assert formulas.async_speedup(30, 20, 2) == pytest.approx(52 / 32)
    assert formulas.group_slots(128, 2, 8) == 32
    assert formulas.kv_bytes(48, 8, 128, 16) == 2 * 48 * 8 * 128 * 2
    assert formulas.pass_at_k(8, 2, 1) == pytest.approx(0.25)
    assert formulas.pass_at_k(8, 2, 8) == 1


def test_the_best_interval_loses_least() -> None:
    def lost(interval: float) -> float:
        return 0.1 / interval + interval * 10 / (2 * 2000)

    best = formulas.save_interval(10, 0.1, 2000)
    assert lost(best) < min(lost(best * 0.95), lost(best * 1.05))
    # Ten machines an hour each are as one machine ten hours.
    assert (
        formulas.survival(10, 1, 50) == pytest.approx(formulas.survival(1, 10, 50)) == pytest.approx(0.8187, abs=1e-4)
    )


def test_calculations_know_formulas_facts_and_arithmetic() -> None:
    assert calculate(SOURCES, "advantage(4, 4); .4f") == "0.9354"
    assert calculate(SOURCES, "-2 * 3 + 1") == "-5"
    assert calculate(SOURCES, "0 - 0.25; .2f") == "\u22120.25"
    assert calculate(SOURCES, 'fact("glm-5.3.layers") * 1000; ,') == "78\u202f000"
    assert calculate(SOURCES, "1.01 ** 1000; .3g") == "2.1e+04"
    assert calculate(SOURCES, 'bench("laptop", "runs.0.seed") + 1') == "1"
    runs = json.loads((SOURCES.results / "laptop.json").read_text(encoding="utf-8"))["runs"]
    after = next(one["after"] for one in runs if one["seed"] == 2)
    assert calculate(SOURCES, 'bench_max("laptop", "runs.seed=2", "after"); .3f') == f"{after:.3f}"
    layouts = json.loads((SOURCES.results / "layouts-h200.json").read_text(encoding="utf-8"))
    most = max(one["gradient"] for one in layouts if one["family"] == "glm4")
    assert calculate(SOURCES, 'bench_max("layouts-h200", "family=glm4", "gradient"); .3e') == f"{most:.3e}".replace(
        "-", "\u2212"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bubbel(4, 8)", "did you mean bubble?"),
        ("1 / 0", "division by zero"),
        ("bubble(4", "is no expression"),
        ("bubble(4)", "has no result"),
        ('fact("glm-4.7.paralel.tp")', "did you mean parallel.tp?"),
        ("bubble.__globals__", "not allowed"),
        ("[1][0]", "not allowed"),
        ("print(1)", "there is no formula"),
        ('bench("tiny-h20", "date")', "write tiny-h200"),
        ('bench("tiny-h200", "runs.firs.median")', "did you mean first?"),
        ('bench_max("layouts-h200", "family=glm5", "gradient")', "no list with an entry of 'family=glm5'"),
        ('bench_max("laptop", "family=glm4", "gradient")', "no list with an entry"),
    ],
)
def test_wrong_calculations_are_explained(text: str, says: str) -> None:
    with pytest.raises(CalculationError, match=says.replace("?", r"\?")):
        calculate(SOURCES, text)


def test_every_formula_may_be_called_by_its_name() -> None:
    assert {"bubble", "advantage", "accepted"} <= set(names()) and "Literal" not in names()
