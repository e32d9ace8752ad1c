"""gpqa and multiple_choice: which letter a response settles on, hedges, denials, texts of choices."""

from __future__ import annotations

from typing import Any

import pytest

from slime.rewards.gold import GoldError
from slime.rewards.graders import check_label, grade

CITIES = ["Paris", "London", "Rome", "New York"]


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is (C).", "C"), ("**Final Answer:** (D)", "D"), ("I choose option B because it is best", "B"),
        ("Option B is incorrect, so the correct answer is C", "C"), ("answer is option C.", "C"), ("(C)", "C"),
        ("C", "C"), ("The best choice is: D", "D"), ("Answer:\n\nB", "B"), (r"\boxed{B}", "B"),
        ("B isn't right. D", "D"), ("A", "A"), ("I think A is the correct answer", "A"),
        ("The answer is (B) because A is wrong", "B"), ("the answer is <B>", "B"),
        ("<think>The answer is A</think>\nThe answer is B", "B"), ("Answer: B) Paris", "B"),
        ("Neither A nor B. So C.", "C"), ("First A seemed right, but the answer is E", "E"),
        (r"$\boxed{\textbf{(D)}}$", "D"), ("the answer: b", "B"),
    ],
)  # fmt: skip
def test_the_letter_that_a_response_settles_on(response: str, letter: str) -> None:
    for gold in "ABCDE":
        assert grade("gpqa", response, gold).kind == ("correct" if gold == letter else "wrong")


@pytest.mark.parametrize(
    "response",
    [
        "The answer is A or B", "A and B", "Answer: A, B, C, D", r"\boxed{A}\boxed{B}", "the answer is B/A",
        "Answer: A & B", "The answer is not B", "Option A is wrong. Option B is wrong.", "The answer is B?",
        "I can't rule out B", "The correct option cannot be determined", "The answer is a matter of taste",
        "Is it A? Is it B?",
    ],
)  # fmt: skip
def test_hedges_and_denials_are_right_for_no_letter(response: str) -> None:
    assert {grade("gpqa", response, gold).kind for gold in "ABCD"} <= {"wrong", "no-answer"}


def test_no_cue_and_no_letter_is_no_answer() -> None:
    assert grade("gpqa", "I do not know.", "B").kind == "no-answer"
    assert grade("gpqa", " \n", "B").kind == "no-answer"
    assert grade("gpqa", "The answer lies elsewhere.", "B").kind == "wrong"


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        ("The answer is B", "correct"), ("The answer is London.", "correct"), ("So it must be London", "correct"),
        ("London or Paris", "wrong"), ("The answer is Rome", "wrong"), ("Answer: E", "wrong"),
        ("The answer is A", "wrong"), ("Paris is large.\nThe answer is London", "correct"),
        ("Londoners", "no-answer"), ("Answer: A) London", "wrong"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gold", ["B", "London", 1, "(b)", "1"])
def test_choices_by_letter_text_and_place(response: str, kind: str, gold: object) -> None:
    assert grade("multiple_choice", response, gold, {"choices": CITIES}).kind == kind
    assert grade("gpqa", response, gold, {"choices": CITIES}).kind == kind


@pytest.mark.parametrize(
    ("grader", "gold", "metadata", "words"),
    [
        ("gpqa", "Berlin", {"choices": CITIES}, "none of the letters ABCD"),
        ("gpqa", "E", {"choices": CITIES}, "none of"), ("gpqa", 7, {"choices": CITIES}, "none of"),
        ("gpqa", None, {}, "none of"), ("gpqa", ["A"], {}, "none of"),
        ("multiple_choice", "A", {}, "wants a list of two texts or more"),
        ("multiple_choice", "A", {"choices": ["x"]}, "two"),
        ("gpqa", "A", {"choices": CITIES, "valid_letters": "AB"}, "a letter of its own"),
        ("gpqa", "A", {"valid_letters": "AAB"}, "a letter of its own"),
    ],
)  # fmt: skip
def test_golds_that_name_no_choice_are_refused(grader: str, gold: object, metadata: dict[str, Any], words: str) -> None:
    with pytest.raises(GoldError, match=words):
        check_label(grader, gold, metadata)


def test_letters_and_right_choice_may_come_from_the_metadata() -> None:
    assert (
        grade("gpqa", "The answer is (Q)", "", {"valid_letters": ["P", "Q"], "correct_letter": "Q"}).kind == "correct"
    )
    assert (
        grade("gpqa", "The answer is K", "", {"choices": {"K": "one", "L": "two"}, "correct_letter": "K"}).kind
        == "correct"
    )
    assert grade("gpqa", "The answer is 42 joules", "42 J", {"answer_text": "42 joules"}).kind == "correct"
    assert grade("gpqa", "The answer is 43 joules", "42 J", {"answer_text": "42 joules"}).kind == "wrong"


def test_boxed_reads_the_box_alone() -> None:
    assert grade("boxed_gpqa", r"The answer is A, no, \boxed{B}", "B").kind == "correct"
    assert grade("boxed_gpqa", "The answer is B", "B").kind == "no-answer"
