"""What math-verify's own `verify` accepts and the graders refuse: the reasons why only its parser is used."""

from __future__ import annotations

import logging

import pytest
from math_verify import parse, verify

from slime.rewards import grade
from slime.rewards.equivalence import equivalent

WRONGLY_ACCEPTED = [
    (r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}"), ("33.33333333", r"\frac{100}{3}"), ("5 days", "5 years"),
    (r"3 \text{ ,wait no 2}", "3"), (r"5\ldots", "5"), ("(6)(5)", "11"), ("A", "a"), ("(1,2)", r"\{1,2\}"),
]  # fmt: skip


def bare(answer: str, gold: str) -> bool:
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    read = parse(f"${gold}$", parsing_timeout=None), parse(rf"\boxed{{{answer}}}", parsing_timeout=None)
    return bool(verify(*read, timeout_seconds=None))


@pytest.mark.parametrize(("answer", "gold"), WRONGLY_ACCEPTED)
def test_wrong_answers_that_verify_accepts(answer: str, gold: str) -> None:
    assert bare(answer, gold)
    assert grade("math", rf"\boxed{{{answer}}}", gold).kind == "wrong"


def test_verify_is_not_symmetric_and_the_graders_are() -> None:
    assert bare("x>3", r"(3,\infty)") != bare(r"(3,\infty)", "x>3")
    assert equivalent("x>3", r"(3,\infty)")[0]
    assert equivalent(r"(3,\infty)", "x>3")[0]


@pytest.mark.parametrize("answer", ["1e3", r"1\,000"])
def test_numbers_that_it_does_not_read(answer: str) -> None:
    assert not bare(answer, "1000")
    assert grade("math", rf"\boxed{{{answer}}}", "1000").kind == "correct"
