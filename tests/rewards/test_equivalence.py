"""Answers that are the same and answers that are not, each compared both ways."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.rewards.canonical import canonical
from slime.rewards.equivalence import equivalent
from slime.rewards.exact import read_number

SAME = [
    ("5", "x=5"), ("x = 2+3 = 5", "5"), ("1,2", "2,1"), ("1,234", r"\{1,234\}"), ("1,234", "1234"),
    (r"1 \text{ or } 2", "2,1"), (r"2\text{ and }3", "2,3"), ("$1$ and $2$", "1,2"), ("0.5", r"\frac12"),
    (r"50\%", "50"), (r"50\%", "0.5"), ("1/2", "50%"), ("12.5%", r"\frac18"), (r"\$5", "5"),
    (r"5\text{ m}", r"5\text{ meters}"), ("5 square feet", r"5\text{ ft}^2"), (r"5\text{ apples}", "5"), ("(A)", "A"),
    (r"\text{(C)}", "C"), ("yes", "YES"), ("xy", "yx"), ("sqrt(16)", "4"), ("pi/2", r"\frac{\pi}{2}"),
    (r"\sqrt{2}\sqrt{3}", r"\sqrt{6}"), (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt2}{2}"), (r"\ln(2x)", r"\ln 2+\ln x"),
    ("x<5", "5>x"), (r"x<2 \text{ or } x\geq 5", r"(-\infty,2)\cup[5,\infty)"), (r"[0,1)", "[0,1.0)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"), (r"1\pm\sqrt{2}", r"1+\sqrt2, 1-\sqrt2"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1 & 2\\ 3& 4.0\end{bmatrix}"),
    (r"3\frac{1}{2}", "3.5"), (r"\tfrac{x}{2}", "0.5x"), ("(x+1)(x-1)", "x^2-1"), ("10^{-3}", "0.001"),
    ("1e-3", "0.001"), ("{5}", "5"), ("((5))", "5"), (r"\frac{2}{3}\text{ hours}", "2/3"), ("0", "-0"),
    ("9!", "362880"), ("f(x)=x^2", "x^2"), (r"x \in \{1,2\}", "1,2"), (r"\angle ABC=45^\circ", "45"),
    (r"\text{Monday}", "monday"), (r"\(3\)", "3."), ("(a+b+c)^{4}", "(a^2+b^2+c^2+2ab+2ac+2bc)^{2}"), ("−7", "-7"),
    (r"1.2\times 10^{3}", "1200"), (r"2^{2019}", "2^{2019}"),
]  # fmt: skip
DIFFERENT = [
    ("x=5", "y=5"), ("(1,2)", "1,2"), ("(1,2)", "(2,1)"), ("3 or 2", "3"), ("33.333333", r"\frac{100}{3}"),
    ("3.141593", r"\pi"), (r"\frac{\pi}{4}", "0.7853981633974483"), ("50%", "0.05"), (r"5\text{ thirds}", "5"),
    (r"5\text{ factorial}", "5"), (r"5\text{ maybe}", "5"), ("0.5%", "50"), ("50%", "50 cm"),
    ("5 cm", r"5\text{ miles}"), ("A", "a"), ("B", "C"), ("nan", "5"), ("0/0", "0"), ("1/0", "5"),
    (r"\infty-\infty", "0"), ("December 5", "5"), ("f'(x)", "f(x)"), ("1 2", "3"), (r"3 \text{ maybe } 2", "3"),
    ("1,2,2", "1,2"), (r"\{1,1\}", r"\{1,2\}"), ("x^2", "x^3"), ("2=3", "3"), ("", "0"), (r"3\\4", "7"),
    ("1/2^{99}", "1/2^{98}"), (r"5\text{ m}^2", r"5\text{ m}"), (r"\frac{", "1"), ("}{", "1"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same(one: str, other: str) -> None:
    assert equivalent(one, other)[0]
    assert equivalent(other, one)[0]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different(one: str, other: str) -> None:
    assert not equivalent(one, other)[0]
    assert not equivalent(other, one)[0]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(-(10**30), 10**30), st.integers(1, 10**6))
def test_numbers_read_back_in_every_spelling(top: int, bottom: int) -> None:
    value = Fraction(top, bottom)
    assert read_number(canonical(f"{top}/{bottom}")) == value
    assert read_number(canonical(rf"\dfrac{{{top}}}{{{bottom}}}")) == value
    assert read_number(canonical(f"{top:,}")) == top
    assert read_number(canonical(f"{top:,}".replace(",", r"\,"))) == top
    assert read_number(canonical(f"$ {top} $.")) == top
    assert read_number(canonical(f"{top}.{bottom:07d}")) == Fraction(f"{top}.{bottom:07d}")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(-50, 50), st.integers(1, 9), st.integers(-50, 50), st.integers(1, 9))
def test_fractions_are_compared_exactly(a: int, b: int, c: int, d: int) -> None:
    assert equivalent(f"{a}/{b}", rf"\frac{{{c}}}{{{d}}}")[0] == (a * d == b * c)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.text(alphabet=r"0123456789xy+-*/^(){}[],.=\ $%!", max_size=14),
    st.sampled_from(["5", "x", r"\frac{1}{2}", "(1,2)"]),
)
def test_any_text_is_compared_without_an_error_and_both_ways_alike(text: str, gold: str) -> None:
    assert equivalent(text, gold)[0] == equivalent(gold, text)[0]
    assert equivalent(text, text)[0]


def test_numbers_need_no_algebra_system() -> None:
    code = (
        "import sys; from slime.rewards.graders import grade; "
        r"assert grade('math', r'\boxed{1,234.5}', r'\frac{2469}{2}').score == 1; "
        "assert not {'sympy', 'math_verify', 'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
