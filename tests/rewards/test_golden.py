"""Every golden case, and the properties that hold for all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slime.rewards.equivalence import equivalent
from slime.rewards.extraction import extract_math
from slime.rewards.gold import GoldError
from slime.rewards.graders import check_label, grade

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "grader-cases.json").read_text(encoding="utf-8"))
THINKING = [case for case in CASES if case["grader"] == "math" and "</think>" in case["response"]]
COMPARABLE = [case for case in CASES if case["grader"] == "math" and isinstance(case["gold"], str) and case["gold"]]


def check(grader: str, case: dict[str, Any]) -> None:
    if case["verdict"] == "refused-at-load":
        with pytest.raises(GoldError):
            check_label(grader, case["gold"])
        return
    assert grade(grader, case["response"], case["gold"]).kind == case["verdict"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_golden(case: dict[str, Any]) -> None:
    check(case["grader"], case)


@pytest.mark.parametrize("case", THINKING, ids=lambda case: str(case["id"]))
def test_deepscaler_agrees_where_the_model_thinks(case: dict[str, Any]) -> None:
    check("deepscaler", case)


@pytest.mark.parametrize("case", COMPARABLE, ids=lambda case: str(case["id"]))
def test_grading_is_symmetric_and_every_gold_answer_is_its_own_answer(case: dict[str, Any]) -> None:
    (answer,) = extract_math(case["response"]).answers
    assert equivalent(answer, case["gold"])[0] == equivalent(case["gold"], answer)[0] == (case["verdict"] == "correct")
    assert grade("math", rf"\boxed{{{case['gold']}}}", case["gold"]).kind == "correct"
    assert grade("math", rf"\boxed{{{case['gold']}}}", answer).kind == case["verdict"]
