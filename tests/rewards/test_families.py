"""Generated families: one value in many spellings, near misses, symmetry; and hostile input by the thousand."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from slime.rewards import grade
from slime.rewards.equivalence import equivalent
from slime.rewards.graders import check_label
from slime.rewards.pool import GradeRequest, GraderPool
from slime.rewards.verdict import Verdict

from .grader_expressions import defined, mutated, random_tree, same, written
from .grader_hostile import MAKERS, hostile
from .grader_spellings import Case, boxed, near_misses, random_value, spellings, unit

HOSTILE = int(os.environ.get("SLIME_HOSTILE_ANSWERS", "1000"))
LIMIT = 20.0


@pytest.mark.parametrize("seed", range(4))
def test_spellings_of_one_value_are_the_same_answer(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        found = spellings(random_value(rng))
        for one in found:
            other = rng.choice(found)
            apart = unit(one) != unit(other) and unit(one) != "" and unit(other) != ""
            assert equivalent(one, other)[0] != apart, (one, other)
            assert equivalent(other, one)[0] != apart, (other, one)


@pytest.mark.parametrize("seed", range(4))
def test_near_misses_are_wrong_both_ways(seed: int) -> None:
    rng = random.Random(100 + seed)
    for _ in range(25):
        value = random_value(rng)
        for miss in near_misses(value, rng):
            right = rng.choice(spellings(value))
            assert not equivalent(miss, right)[0], (miss, right)
            assert not equivalent(right, miss)[0], (right, miss)


@pytest.mark.parametrize("seed", range(2))
def test_every_gold_answer_is_its_own_answer(seed: int) -> None:
    rng = random.Random(200 + seed)
    for _ in range(40):
        gold = rng.choice(spellings(random_value(rng)))
        check_label("math", gold)
        assert grade("math", boxed(gold), gold).kind == "correct", gold
        assert grade("dapo", f"I think.\nAnswer: {gold}", gold).kind == "correct", gold


@pytest.mark.parametrize(
    "gold",
    [
        r"\frac{x}{2}", "x^2+2x+1", r"\{1,2,3\}", "[1,2)", "(1,2,3)", r"(-\infty,2)\cup(3,\infty)", "New York", "B",
        r"\pi", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "y=2x+1", r"x \geq 3", r"0.\overline{3}", r"\sqrt[3]{7}",
        "12:30", "5 days", r"\text{July } 4", r"1\pm\sqrt2", r"\emptyset", r"\mathbb{R}", r"\sin 30^\circ", "3:4",
        r"e^{-x^2}", "3+4i",
    ],
)  # fmt: skip
def test_every_kind_of_gold_answer_is_its_own_answer(gold: str) -> None:
    spaced = gold.replace(",", ", ").replace("=", " = ").replace("+", " + ")
    for answer in (gold, f"${gold}$", rf"\({gold}\)", f" {gold} ", gold + ".", rf"\displaystyle {gold}", spaced):
        assert grade("math", boxed(answer), gold).kind == "correct", answer


def test_hostile_answers_hang_nothing_break_nothing_and_are_never_correct() -> None:
    cases = list(hostile(seed=20, count=HOSTILE))
    assert {case.family for case in cases} == {maker(random.Random(0)).family for maker in MAKERS}
    verdicts = run(cases)
    assert [(case, verdict) for case, verdict in zip(cases, verdicts, strict=True) if verdict.kind == "correct"] == []
    errors = Counter(verdict.reason for verdict in verdicts if verdict.kind == "grader-error")
    # A time limit may strike on a busy machine; a crash may not.
    assert all("no verdict within" in reason for reason in errors), errors


def test_a_verdict_follows_a_hostile_answer_in_the_same_worker() -> None:
    honest = Case("honest", "math", boxed(r"\sqrt{16}"), 4)
    cases = [case for one in hostile(seed=21, count=60) for case in (one, honest)]
    assert [verdict.kind for verdict in run(cases)[1::2]] == ["correct"] * 60


def run(cases: list[Case]) -> list[Verdict]:
    requests = [GradeRequest(case.grader, case.response, case.gold, case.metadata or {}) for case in cases]
    with GraderPool(workers=2, time_limit=LIMIT) as pool:
        return asyncio.run(pool.grade(requests))


@pytest.mark.parametrize("seed", range(3))
def test_expressions_against_exact_evaluation(seed: int) -> None:
    rng = random.Random(300 + seed)
    for _ in range(25):
        tree = random_tree(rng, 3)
        other = mutated(tree, rng)
        if not (defined(tree) and defined(other)):
            continue
        for one, two, expected in ((tree, tree, True), (tree, other, same(tree, other))):
            left, right = written(one, rng), written(two, rng)
            assert equivalent(left, right)[0] == expected, (left, right)
            assert equivalent(right, left)[0] == expected, (right, left)
