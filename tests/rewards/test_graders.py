"""Where graders look for the answer, what they refuse, and why they say so."""

from __future__ import annotations

import pytest

from slime.rewards.gold import GoldError, read_gold
from slime.rewards.graders import UnknownGrader, check_label, grade, label_checker
from slime.rewards.limits import over_limit


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (r"<think>\boxed{1}</think>\boxed{5}", "correct"),
        (r"<think>\boxed{5}</think>\boxed{1}", "wrong"),
        (r"<think>\boxed{5}</think> so it is five", "correct"),
        (r"\boxed{5} and again \boxed{5.}", "correct"),
        (r"\boxed{5} = \boxed{\frac{10}{2}} = \boxed{5.0}", "correct"),
        (r"\boxed{4} or \boxed{5}", "wrong"),
        (r"\boxed{5} ... \boxed{4} ... \boxed{5}", "wrong"),
        (r"\boxed{\boxed{5}}", "correct"),
        (r"\boxed {5}", "correct"),
        (r"\boxed{5", "no-answer"),
        ("the answer is 5", "no-answer"),
        ("", "no-answer"),
        ("5", "correct"),
        (" 5.\n", "correct"),
        ("<think>4</think>\n5", "correct"),
        ("6", "wrong"),
    ],
)
def test_where_math_looks(response: str, kind: str) -> None:
    assert grade("math", response, "5").kind == kind


@pytest.mark.parametrize(
    ("response", "kind", "reason"),
    [
        (r"<think>\boxed{1}</think>\boxed{5}", "correct", ""),
        (r"a</think>\boxed{1}</think>\boxed{5}", "correct", ""),
        (r"###Response \boxed{5}", "correct", ""),
        (r"\boxed{1} ###Response \boxed{5} ###Response \boxed{2}", "correct", ""),
        (r"\boxed{5}", "no-answer", "use --rm-type math"),
        (r"<think>\boxed{5}", "no-answer", "use --rm-type math"),
        (r"<think>\boxed{5}</think> five", "no-answer", "after the thinking part"),
        (r"</think>\boxed{5", "no-answer", "not closed"),
        (r"</think>\boxed{5} or \boxed{6}", "wrong", "2 different boxed answers"),
        ("</think>5", "no-answer", "no \\boxed{...} after the thinking part"),
    ],
)
def test_where_deepscaler_looks(response: str, kind: str, reason: str) -> None:
    verdict = grade("deepscaler", response, "5")
    assert verdict.kind == kind
    assert reason in verdict.reason
    assert verdict.score == float(kind == "correct")


def test_several_boxes_are_a_set_only_if_the_gold_answer_is_declared_one() -> None:
    response = r"\boxed{2} and \boxed{1}"
    assert grade("math", response, r"\{1,2\}", {"answer_type": "set"}).kind == "correct"
    assert grade("math", response, r"\{1,3\}", {"answer_type": "set"}).kind == "wrong"
    assert grade("math", response, r"\{1,2\}").kind == "wrong"


@pytest.mark.parametrize(
    ("label", "answer_type", "answer", "kind"),
    [
        (5, "int", "5.0", "correct"), ("1/2", "rational", "0.5", "correct"), ("B", "choice", r"\text{(b)}", "correct"),
        ("B", "choice", "C", "wrong"), ("New York", "text", "new  york", "correct"),
        ("[1,2)", "interval", "[1,2.0)", "correct"),
        ("[1,2)", "interval", "2", "wrong"), ("1,234", "set", "234, 1", "correct"), ("1,234", "set", "1234", "wrong"),
        (r"\{1,2\}", "set", r"x \in \{2,1\}", "correct"), ("1,2", "set", "x=2 or x=1", "correct"),
        ("1,2", "set", "(1,2)", "wrong"), ("[3,oo)", "interval", r"x \geq 3", "correct"),
        ("3.25", "decimal", r"\frac{13}{4}", "correct"), ("3.25", "decimal", "3.2", "wrong"),
        ("(1,2)", "tuple", "(1, 2.0)", "correct"), ("(1,2)", "tuple", "1,2", "wrong"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", "matrix", r"\begin{bmatrix}1 & 2\end{bmatrix}", "correct"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", "matrix", "(1,2)", "wrong"),
        ("x+1", "expr", "1+x", "correct"), (2.5, "rational", "5/2", "correct"),
    ],
)  # fmt: skip
def test_typed_gold_answers(label: object, answer_type: str, answer: str, kind: str) -> None:
    check_label("math", label, {"answer_type": answer_type})
    assert grade("math", rf"\boxed{{{answer}}}", label, {"answer_type": answer_type}).kind == kind


@pytest.mark.parametrize(
    ("label", "answer_type", "words"),
    [
        (None, None, "missing"), (["5"], None, "it must be text or a number"), (True, None, "bool"),
        ("", None, "is empty"),
        ("$$", None, "is empty"), (float("nan"), None, "finite"), ("1/2", "int", "is no integer"),
        ("x", "rational", "no fraction"), ("5", "set", "no list or set"), ("(1,2,3)", "interval", "is no interval"),
        ("BC", "choice", "no single letter"), ("5", "rationl", "unknown; the nearest is 'rational'"),
        ("9" * 3000, None, "3000 characters"), ("9**9**9", "int", "a power of a power"),
    ],
)  # fmt: skip
def test_gold_answers_that_are_refused(label: object, answer_type: str | None, words: str) -> None:
    with pytest.raises(GoldError, match=words):
        read_gold(label, answer_type)


def test_a_row_may_name_its_own_grader_and_type() -> None:
    check = label_checker("math")
    check("5", {"rm_type": "deepscaler", "answer_type": "int"})
    with pytest.raises(GoldError, match="is no integer"):
        check("x", {"answer_type": "int"})
    with pytest.raises(UnknownGrader, match="'maths' names no grader; the nearest is 'math'"):
        check("5", {"rm_type": "maths"})


def test_an_unknown_grader_names_the_nearest() -> None:
    with pytest.raises(UnknownGrader, match="'deepscalar' names no grader; the nearest is 'deepscaler'"):
        check_label("deepscalar", "5")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9**9**9**9", "a power of a power"), ("9^{9^{9}}", "a power of a power"),
        ("(9)^{(9)^{(9)}}", "a power of a power"),
        ("10**10**10", "a power of a power"), ("x^{99}^9", "a power of a power"),
        ("2^{99!}", "factorial in an exponent"),
        ("(x+y)**99999", "an exponent of size 99999"), ("2^{99*99}", "an exponent of size 9801"),
        ("2^{5000}", "size 5000"),
        ("9" * 401, "a number of 401 digits"), ("(" * 33 + ")" * 33, "nested 33 deep"), ("x" * 2001, "2001 characters"),
        ("2^{" + "*".join(["9" * 400] * 4) + "}", "an exponent of size 9999"),
        ("2006!", "the factorial of 2006"), ("(9!)!", "a factorial of"), ("9!!", "a factorial of a factorial"),
        (r"\binom{99999}{5}", "a binomial of 99999"), (r"\sum_{i=1}^{999999999} i", "an exponent of size 999999999"),
    ],
)  # fmt: skip
def test_limits(text: str, words: str) -> None:
    assert words in (over_limit(text) or "")


@pytest.mark.parametrize(
    "text", ["e^{x^{2}}", "e^{-x^{2}/2}", "2^{1000}", "(x+1)^{100}", "n!", "5!", "x^2+y^2", r"a \neq b", "2^{n+1}"]
)
def test_ordinary_mathematics_is_within_the_limits(text: str) -> None:
    assert over_limit(text) is None
