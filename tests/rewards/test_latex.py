"""Products that math-verify's parser would read as sums or as functions, and what must stay as it is."""

from __future__ import annotations

import pytest

from slime.rewards.canonical import canonical
from slime.rewards.equivalence import equivalent
from slime.rewards.latex import explicit


@pytest.mark.parametrize(
    ("one", "product", "sum_of_both"),
    [
        ("(6)(5)", "30", "11"), ("2(3)", "6", "5"), ("{2}{3}", "6", "5"), ("(3)2", "6", "5"),
        (r"(2)\frac{1}{2}", "1", "2.5"), ("[2](3)", "6", "5"), (r"\binom{3}{1} 2", "6", "5"),
        (r"\frac{(2)(3)}{5}", "1.2", "1"), ("2(3)(4)", "24", "9"), (r"-(2)(3)", "-6", "-5"),
        (r"2\left(3\right)", "6", "5"),
    ],
)  # fmt: skip
def test_juxtaposed_numbers_are_multiplied(one: str, product: str, sum_of_both: str) -> None:
    assert equivalent(one, product)[0]
    assert not equivalent(one, sum_of_both)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x(3)", "3x"), ("x^{2}(3)", "3x^2"), (r"2\pi(3)", r"6\pi"), ("{{x}^{2}}+{{y}^{2}}", "y^2+x^2"),
        (r"\sqrt[3]{8}(2)", "4"), (r"\sin^{2}(x)", r"\sin^2 x"), (r"\log_{2}{8}", "3"), (r"\log_2 8", "3"),
        (r"\sin 30^\circ", "0.5"), ("n(n+1)", "n^2+n"), (r"\cos(60^\circ)", r"\frac12"), (r"5!(2)", "240"),
        (r"3\frac{1}{2}", "3.5"), (r"\sin{x}", r"\sin x"),
    ],
)  # fmt: skip
def test_what_juxtaposition_means(one: str, other: str) -> None:
    assert equivalent(one, other)[0]
    assert equivalent(other, one)[0]


@pytest.mark.parametrize(
    "text", [r"\frac{1}{2}", r"f(x)", r"\log_{2}(8)", r"\sqrt[3]{x}", r"\sum_{i=1}^{3} i", r"e^{-x^2}"]
)
def test_what_is_explicit_stays(text: str) -> None:
    assert explicit(canonical(text)) == canonical(text)


@pytest.mark.parametrize("text", ["{", "}", "}{", r"\frac{", "x}"])
def test_braces_that_do_not_match(text: str) -> None:
    assert explicit(text) is None
