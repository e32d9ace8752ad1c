"""Equality of expressions, by math-verify's LaTeX parser and SymPy. Runs in a worker that can be killed.

math-verify's own `verify` is not used: it compares with rounded floats (it takes 1/2^99 for 1/2^98), treats its two
sides differently, and drops what it cannot parse.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache

import sympy
from math_verify import parse
from math_verify.parser import LatexExtractionConfig, NormalizationConfig
from sympy.core.evalf import PrecisionExhausted
from sympy.core.relational import Relational

from slime.rewards.latex import explicit
from slime.rewards.limits import MAX_EXPRESSION, over_limit

# What SymPy raises on expressions that it cannot handle. Anything else is a defect and ends the worker.
SYMPY_ERRORS = (ArithmeticError, AttributeError, NotImplementedError, RecursionError, TypeError, ValueError)
# Nothing is to be dropped while parsing, so math-verify's own removal of units and nits is off.
NORMALIZATION = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=False, boxed="none", equations=False
)
CONFIG = (LatexExtractionConfig(boxed_match_priority=-1, normalization_config=NORMALIZATION),)
# The parser ignores these or reads them as something else: words, quotes, derivatives, "1 2", line breaks.
# Other commands and characters it may drop without a word: 5\ldots would be 5, and so would 5_2.
UNREADABLE = re.compile(r"\\\\|[0-9]\s+[0-9.]|[0-9]\s*_|[^A-Za-z0-9 \\{}()\[\]+\-*/^_.,!|=<>:]")
COMMAND = re.compile(r"\\[A-Za-z]+")
_READABLE = r"""
    frac sqrt cdot times div pm mp pi infty sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp
    binom sum prod int lim to limits lfloor rfloor lceil rceil lvert rvert vert gcd max min mod left right circ
    leq geq neq lt gt le ge ne alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu
    xi rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
"""
READABLE = frozenset(rf"\{name}" for name in _READABLE.split())
DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)")
DIGITS = 40
# Unknowns take this value, plus 0, 1, 2, ..., for a first comparison before any algebra; no special point of anything.
POINT = sympy.Rational(37, 89)
SURELY_NOT_ZERO = sympy.Float("1e-19")

# The limit on time is the pool's, from outside; math-verify warns of its own being off for every process.
logging.getLogger("math_verify").setLevel(logging.ERROR)


def same_expression(one: str, other: str) -> tuple[bool, str]:
    """Whether two canonical expressions are equal for all values of their unknowns."""
    left, right = _parse(one), _parse(other)
    if left is None or right is None:
        return False, f"cannot be read as mathematics: {(one if left is None else other)[:60]}"
    if _capitals(one) != _capitals(other):
        return False, "capital letters differ"  # the parser reads A as a
    same = _equal(left, right)
    return same, "equal after simplification" if same else "expressions differ"


def same_equation(left: str, right: str, other_left: str, other_right: str) -> tuple[bool, str]:
    """Whether ``left = right`` and ``other_left = other_right`` say the same: their differences are proportional."""
    sides = [side for text in (left, right, other_left, other_right) if (side := _parse(text)) is not None]
    if len(sides) < 4:
        return False, "an equation that cannot be read as mathematics"
    if _capitals(left + right) != _capitals(other_left + other_right):
        return False, "capital letters differ"
    try:
        one, other = sides[0] - sides[1], sides[2] - sides[3]
        ratio = sympy.simplify(one / other)
    except SYMPY_ERRORS as error:
        return False, f"cannot compare the equations: {type(error).__name__}"
    same = bool(ratio.is_number and ratio.is_finite and not ratio.is_zero)
    return same, "proportional equations" if same else "equations differ"


@lru_cache(maxsize=4096)
def _parse(text: str) -> sympy.Basic | None:
    if len(text) > MAX_EXPRESSION or over_limit(text):
        return None
    latex = explicit(text)
    if latex is None or UNREADABLE.search(latex) or not READABLE.issuperset(COMMAND.findall(latex)):
        return None
    # SymPy reads 33.3 as a float or a fraction by context; a fraction from the start is exact.
    exact = DECIMAL.sub(lambda found: rf"\frac{{{int(found[1] + found[2])}}}{{{10 ** len(found[2])}}}", latex)
    found = parse(f"${exact}$", extraction_config=CONFIG, fallback_mode="no_fallback", parsing_timeout=None)
    if not found or not isinstance(found[0], sympy.Basic) or found[0].has(sympy.nan, sympy.zoo):
        return None
    # The parser takes i for a variable, of varying assumptions.
    return found[0].subs({symbol: sympy.I for symbol in found[0].free_symbols if str(symbol) == "i"})


def _capitals(text: str) -> set[str]:
    return {letter for letter in COMMAND.sub(" ", text) if letter.isupper()}


def _equal(left: sympy.Basic, right: sympy.Basic) -> bool:
    if left == right:
        return True
    if isinstance(left, Relational) and isinstance(right, Relational):
        return bool(left.canonical == right.canonical)
    if not (isinstance(left, sympy.Expr) and isinstance(right, sympy.Expr)):
        return False
    try:
        difference = (left - right).doit()
        if difference.is_zero is True:
            return True
        if _differs_numerically(difference):
            return False
        return bool(sympy.simplify(difference) == 0)
    except SYMPY_ERRORS:
        return False


def _differs_numerically(difference: sympy.Expr) -> bool:
    """A value that is surely not 0 settles it at once; a value near 0 settles nothing."""
    unknowns = sorted(difference.free_symbols, key=str)
    values = {name: POINT + index for index, name in enumerate(unknowns)}
    try:
        number = difference.subs(values).evalf(DIGITS, maxn=10 * DIGITS, strict=True)
    except PrecisionExhausted:  # the two sides cancel as far as one can see
        return False
    if not number.is_number or not number.is_finite:
        return False
    return bool(abs(number) > SURELY_NOT_ZERO)
