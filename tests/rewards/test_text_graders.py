"""dapo, gsm8k, f1, random and the prefix boxed_: where they look, what they refuse, how they score."""

from __future__ import annotations

from typing import Any

import pytest

from slime.rewards.gold import GoldError
from slime.rewards.graders import check_label, grade
from slime.rewards.overlap import f1, words


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        ("Answer: 42", "correct"), ("**Answer:** 42", "correct"), ("**Answer: 42**", "correct"),
        ("answer : $42$.", "correct"), ("Answer: 41\nAnswer: 42", "correct"), ("Answer: 42\nAnswer: 41", "wrong"),
        ("Answer: 42 or 41", "wrong"), ("Answer: 42<|im_end|>", "correct"), ("Answer: 42</s>", "correct"),
        ("Answer:\n\n$$42$$", "correct"), ("<think>Answer: 1</think>Answer: 42", "correct"),
        ("<think>Answer: 42</think>Answer: 1", "wrong"), (r"Answer: \boxed{42}", "correct"),
        (r"Answer: \boxed{42", "no-answer"), ("the answer is 42", "no-answer"), ("42", "correct"),
        (r"so \boxed{42}", "correct"), ("", "no-answer"), ("Answer:", "no-answer"), ("Answer: x = 42", "correct"),
    ],
)  # fmt: skip
def test_dapo_reads_the_last_answer_line(response: str, kind: str) -> None:
    verdict = grade("dapo", response, "42")
    assert (verdict.kind, verdict.score) == (kind, 1.0 if kind == "correct" else -1.0)
    assert verdict.value("score") == verdict.score
    assert verdict.value("acc") == float(kind == "correct")


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        ("#### 18", "correct"), ("#### 18 apples", "correct"), ("#### 3 * 6 = 18", "correct"),
        ("#### 18 or 20", "wrong"), ("#### 18\n#### 20", "wrong"), ("#### 20\n#### 18", "correct"),
        ("####", "no-answer"), ("#### $18.00", "correct"), ("She pays 18 dollars.", "correct"),
        ("6 * 3 = 18", "correct"), ("17 or 18", "wrong"), ("from 17 to 18", "wrong"), (r"\boxed{18}", "correct"),
        (r"\boxed{18} \boxed{19}", "wrong"), ("none", "no-answer"), ("-18", "wrong"),
        ("<think>18</think>The total is 19", "wrong"), ("#### 36/2", "correct"), ("#### 18 (not 20)", "wrong"),
        ("#### 18%", "correct"),
    ],
)  # fmt: skip
def test_gsm8k(response: str, kind: str) -> None:
    assert grade("gsm8k", response, "18").kind == kind
    assert grade("gsm8k", response, "She has 3 times 6.\n#### 18").kind == kind


def test_gsm8k_refuses_a_gold_answer_that_is_no_number() -> None:
    for label in ("x", "#### ", None, "18 or 20"):
        with pytest.raises(GoldError):
            check_label("gsm8k", label)


@pytest.mark.parametrize(
    ("one", "other", "score"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1.0), ("a blue whale", "whale", 2 / 3), ("whale whale", "whale", 2 / 3),
        ("yes", "no", 0.0), ("yes it is", "yes", 0.0), ("nothing shared", "blue whale", 0.0),
        ("in the year 1969", "1969", 0.5),
    ],
)  # fmt: skip
def test_f1_against_the_formula(one: str, other: str, score: float) -> None:
    assert f1(words(one), words(other)) == f1(words(other), words(one)) == pytest.approx(score, abs=1e-12)
    verdict = grade("f1", one, other)
    assert verdict.score == pytest.approx(score, abs=1e-12)
    assert verdict.kind == ("correct" if score == 1.0 else "wrong")


def test_f1_takes_the_nearest_of_several_references_and_refuses_empty_ones() -> None:
    assert grade("f1", "blue whale", ["dog", "the blue whale"]).kind == "correct"
    assert grade("f1", "...", "whale").kind == "no-answer"
    refused: list[Any] = ["the", "", None, [], 5]
    for label in refused:
        with pytest.raises(GoldError, match="f1 wants a text"):
            check_label("f1", label)


def test_random_is_fair_and_falls_the_same_way_each_time() -> None:
    scores = [grade("random", f"answer {number}", "x").score for number in range(2000)]
    assert scores == [grade("random", f"answer {number}", "x").score for number in range(2000)]
    # 2000 fair coins leave 1000 +- 5 standard deviations (22.4) once in two million draws; this draw is fixed.
    assert abs(sum(scores) - 1000) < 112


@pytest.mark.parametrize(
    ("grader", "response", "gold", "kind"),
    [
        ("boxed_math", r"\boxed{42}", "42", "correct"), ("boxed_math", "42", "42", "no-answer"),
        ("boxed_dapo", r"Answer: 1, no, \boxed{42}", "42", "correct"),
        ("boxed_f1", r"It is a \boxed{blue whale}", "blue whale", "correct"),
        ("boxed_f1", "blue whale", "blue whale", "no-answer"), ("boxed_math", r"\boxed{1} \boxed{42}", "42", "wrong"),
        ("boxed_gsm8k", r"#### 1 \boxed{42}", "42", "correct"),
    ],
)  # fmt: skip
def test_boxed(grader: str, response: str, gold: str, kind: str) -> None:
    check_label(grader, gold)
    assert grade(grader, response, gold).kind == kind


def test_a_prompt_that_is_repeated_is_no_answer() -> None:
    echo = r"You said: put your final answer within \boxed{}."
    assert grade("math", rf"{echo} So \boxed{{5}}.", "5").kind == "correct"
    assert grade("math", r"Use \boxed{answer}. \boxed{5}", "5").kind == "correct"
    assert grade("math", echo, "5").kind == "wrong"
