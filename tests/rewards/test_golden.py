"""Every golden case of the graders that exist, and the properties that hold for all of them."""

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
MATH = [case for case in CASES if case["grader"] == "math"]
COMPARABLE = [case for case in MATH if isinstance(case["gold"], str) and case["gold"]]


@pytest.mark.parametrize("case", MATH, ids=lambda case: str(case["id"]))
def test_math(case: dict[str, Any]) -> None:
    if case["verdict"] == "refused-at-load":
        with pytest.raises(GoldError):
            check_label("math", case["gold"])
        return
    assert grade("math", case["response"], case["gold"]).kind == case["verdict"]


@pytest.mark.parametrize(
    "case", [case for case in MATH if "</think>" in case["response"]], ids=lambda case: str(case["id"])
)
def test_deepscaler_agrees_where_the_model_thinks(case: dict[str, Any]) -> None:
    if case["verdict"] == "refused-at-load":
        with pytest.raises(GoldError):
            check_label("deepscaler", case["gold"])
        return
    assert grade("deepscaler", case["response"], case["gold"]).kind == case["verdict"]


@pytest.mark.parametrize("case", COMPARABLE, ids=lambda case: str(case["id"]))
def test_grading_is_symmetric_and_every_gold_answer_is_its_own_answer(case: dict[str, Any]) -> None:
    (answer,) = extract_math(case["response"]).answers
    assert equivalent(answer, case["gold"])[0] == equivalent(case["gold"], answer)[0] == (case["verdict"] == "correct")
    assert grade("math", rf"\boxed{{{case['gold']}}}", case["gold"]).kind == "correct"
    assert grade("math", rf"\boxed{{{case['gold']}}}", answer).kind == case["verdict"]
