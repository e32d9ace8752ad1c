"""Whether two answers are the same. Symmetric, exact, and no floating point decides: 0.333 is not 1/3.

Shapes and numbers are compared here. Expressions go to `slime.rewards.symbolic`, which is imported only then, because
the algebra system takes a third of a second to import and most answers are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from slime.rewards.canonical import canonical, key
from slime.rewards.exact import read_number
from slime.rewards.limits import MAX_CHARACTERS, over_limit
from slime.rewards.structure import Answer, read_answer

if TYPE_CHECKING:
    from types import ModuleType

UNORDERED = ("list", "set", "union")
MAX_ELEMENTS = 64


def equivalent(one: str, other: str, on_symbolic: Callable[[], None] | None = None) -> tuple[bool, str]:
    """Compare two answers as written.

    Args:
        one, other: answers, LaTeX or plain; the order does not matter.
        on_symbolic: called before the algebra system is used.

    Returns:
        Whether they are the same, and why.
    """
    first, second = canonical(one), canonical(other)
    if first == second:
        return True, "written alike"
    if max(len(first), len(second)) <= MAX_CHARACTERS and key(first) == key(second):
        return True, "written alike"
    for text in (first, second):
        if reason := over_limit(text):
            return False, f"not compared: {reason}"
    left, right = read_answer(first), read_answer(second)
    if {left.shape, right.shape} in ({"number", "list"}, {"number", "set"}):
        # 1,234 next to a set or a list of two numbers is two numbers.
        left, right = (
            (read_answer(first, as_list=True), right)
            if left.shape == "number"
            else (left, read_answer(second, as_list=True))
        )
    return _same(left, right, on_symbolic)


def identity(answer: str) -> Fraction | str:
    """A number's exact value, else the spelling: answers with the same identity are surely the same."""
    text = canonical(answer)
    number = None if over_limit(text) else read_number(text)
    if number is not None:
        return number
    return key(text) if len(text) <= MAX_CHARACTERS else text


def _same(one: Answer, other: Answer, hook: Callable[[], None] | None) -> tuple[bool, str]:
    if one.unit and other.unit and one.unit != other.unit:
        return False, f"units differ: {one.unit} and {other.unit}"
    if one.shape == "equation" or other.shape == "equation":
        return _equations(one, other, hook)
    if one.number is not None and other.number is not None:
        same = one.number == other.number or _same_share(one, other)
        return same, f"numbers {_short(one)} and {_short(other)}"
    if "text" in (one.shape, other.shape):
        same = key(one.text).casefold() == key(other.text).casefold()
        return same, "the same words" if same else "words differ"
    if one.parts or other.parts:
        return _collections(one, other, hook)
    if key(one.text) == key(other.text):
        return True, "written alike"
    return _symbolic(hook).same_expression(_latex(one), _latex(other))


def _same_share(one: Answer, other: Answer) -> bool:
    """50 percent is the number 0.5 (and, as any unit may be left out, the number 50)."""
    if one.unit == "percent" and not other.unit:
        return one.number is not None and other.number is not None and one.number == 100 * other.number
    return other.unit == "percent" and not one.unit and _same_share(other, one)


def _collections(one: Answer, other: Answer, hook: Callable[[], None] | None) -> tuple[bool, str]:
    shapes = {one.shape, other.shape}
    listed = one if one.shape == "list" else other
    if shapes == {"list", "union"} and all(part.shape == "tuple" and part.name for part in listed.parts):
        shapes = {"union"}  # x < 2 or x > 5
    if shapes not in ({"list"}, {"set"}, {"list", "set"}, {"union"}, {"tuple"}, {"matrix"}):
        return False, f"shapes differ: {one.shape} and {other.shape}"
    if one.name and other.name and one.name != other.name:
        return False, f"{one.name} and {other.name} are bounded"
    if (len(one_names := _names(one)) > 1 and not _names(other)) or (len(_names(other)) > 1 and not one_names):
        return False, "values with different names, and values without"
    if one.brackets != other.brackets:
        return False, f"brackets differ: {one.brackets} and {other.brackets}"
    if len(one.parts) != len(other.parts):
        return False, f"{len(one.parts)} and {len(other.parts)} elements"
    if len(one.parts) > MAX_ELEMENTS:
        return False, f"not compared: {len(one.parts)} elements, the limit is {MAX_ELEMENTS}"
    if one.shape in UNORDERED:
        return _unordered(list(one.parts), list(other.parts), hook)
    for position, (left, right) in enumerate(zip(one.parts, other.parts, strict=True), start=1):
        same, reason = _same(left, right, hook)
        if not same:
            return False, f"element {position}: {reason}"
    return True, "all elements equal"


def _names(answer: Answer) -> set[str]:
    """Names that its parts are given, without their numbers: x_1 and x_2 are both x."""
    return {part.name.split("_")[0].strip() for part in answer.parts if part.shape == "equation" and part.name}


def _unordered(one: list[Answer], other: list[Answer], hook: Callable[[], None] | None) -> tuple[bool, str]:
    for left in one:
        match = next((i for i, right in enumerate(other) if _same(left, right, hook)[0]), None)
        if match is None:
            return False, f"no partner for {left.text[:40]}"
        other.pop(match)
    return True, "the same elements"


def _equations(one: Answer, other: Answer, hook: Callable[[], None] | None) -> tuple[bool, str]:
    if one.shape == other.shape:
        if one.name and one.name == other.name:
            return _same(one.parts[1], other.parts[1], hook)
        sides = [_latex(part) for part in (*one.parts, *other.parts)]
        return _symbolic(hook).same_equation(*sides)
    equation, value = (one, other) if one.shape == "equation" else (other, one)
    if equation.name:
        return _same(equation.parts[1], value, hook)
    return False, f"shapes differ: equation and {value.shape}"


def _symbolic(hook: Callable[[], None] | None) -> ModuleType:
    if hook is not None:
        hook()
    from slime.rewards import symbolic

    return symbolic


def _latex(answer: Answer) -> str:
    """For the LaTeX parser, which reads 1e3 and 1 1/2 as something else: numbers as fractions."""
    if answer.number is None:
        return answer.text
    top, bottom = answer.number.as_integer_ratio()
    return str(top) if bottom == 1 else rf"\frac{{{top}}}{{{bottom}}}"


def _short(answer: Answer) -> str:
    text = f"{answer.number} {answer.unit}".strip()
    return text if len(text) <= 40 else f"{text[:37]}..."
