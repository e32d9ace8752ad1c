"""The functions that expressions may call: a closed list, each with its number of arguments and types.

The JavaScript twin is ``sphinx_slime_lab/js/src/core/functions.js``. A name that is not in ``FUNCTIONS`` cannot be
called; a new function is added in both files and in ``tests/corpus/expressions.yaml``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from slime.experiment.errors import ExpressionError
from slime.experiment.predicates import PREDICATES, split_on_spaces

SAFE_INTEGER = 2**53 - 1
"""The largest integer that both languages hold exactly."""


def want_int(value: Any) -> int:
    """``value`` if it is an integer in the exact range; a boolean is no integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExpressionError("type", f"expected an integer, got {value!r}")
    if abs(value) > SAFE_INTEGER:
        raise ExpressionError("range", f"{value} leaves the range of exact integers")
    return value


def want_text(value: Any) -> str:
    """``value`` if it is a text."""
    if not isinstance(value, str):
        raise ExpressionError("type", f"expected a text, got {value!r}")
    return value


def want_list(value: Any) -> list[Any]:
    """``value`` if it is a list."""
    if not isinstance(value, list):
        raise ExpressionError("type", f"expected a list, got {value!r}")
    return value


def _want_step(value: Any) -> int:
    step = want_int(value)
    if step <= 0:
        raise ExpressionError("zero", f"expected a positive integer, got {step}")
    return step


def _exact(value: int) -> int:
    return want_int(value)


def _multiple(value: Any, step: Any, half: Callable[[int], int]) -> int:
    whole, unit = want_int(value), _want_step(step)
    return _exact(_exact(whole + half(unit)) // unit * unit)


def _round_to(value: Any, step: Any) -> int:
    """The nearest multiple; a tie goes up."""
    whole, unit = want_int(value), _want_step(step)
    doubled, twice = _exact(2 * whole + unit), _exact(2 * unit)
    return _exact(doubled // twice * unit)


def _split(text: Any, *separators: Any) -> list[str]:
    if not separators:
        return split_on_spaces(want_text(text))
    separator = want_text(separators[0])
    if separator == "":
        raise ExpressionError("empty", "split needs a separator that is not empty")
    return [part for part in want_text(text).split(separator) if part]


def _first(values: Any) -> Any:
    if not want_list(values):
        raise ExpressionError("empty", "first of an empty list")
    return values[0]


def _predicate(test: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda value: test(want_text(value))


FUNCTIONS: dict[str, tuple[int, int | None, Callable[..., Any]]] = {
    "min": (1, None, lambda *values: min(map(want_int, values))),
    "max": (1, None, lambda *values: max(map(want_int, values))),
    "len": (1, 1, lambda value: len(value) if isinstance(value, str) else len(want_list(value))),
    "ceil_to": (2, 2, lambda value, step: _multiple(value, step, lambda unit: unit - 1)),
    "floor_to": (2, 2, lambda value, step: _multiple(value, step, lambda unit: 0)),
    "round_to": (2, 2, _round_to),
    "lcm": (2, 2, lambda left, right: _exact(math.lcm(_want_step(left), _want_step(right)))),
    "gcd": (2, 2, lambda left, right: math.gcd(_want_step(left), _want_step(right))),
    "text": (1, 1, lambda value: str(want_int(value))),
    "concat": (1, None, lambda *parts: "".join([want_text(part) for part in parts])),
    "join": (1, 2, lambda parts, between=" ": want_text(between).join([want_text(p) for p in want_list(parts)])),
    "split": (1, 2, _split),
    "first": (1, 1, _first),
    "distinct": (1, 1, lambda texts: list(dict.fromkeys(map(want_text, want_list(texts))))),
    "starts_with": (2, 2, lambda text, start: want_text(text).startswith(want_text(start))),
    "ends_with": (2, 2, lambda text, end: want_text(text).endswith(want_text(end))),
    **{name: (1, 1, _predicate(test)) for name, test in PREDICATES.items()},
}
"""Name -> fewest arguments, most arguments (None: no limit), implementation."""


def check_arity(name: str, count: int) -> None:
    """Raise ``ExpressionError`` when ``name`` cannot take ``count`` arguments."""
    fewest, most, _ = FUNCTIONS[name]
    if count < fewest or (most is not None and count > most):
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}" if most else f"at least {fewest}"
        raise ExpressionError("arity", f"{name} takes {wanted} arguments, got {count}")


def call(name: str, values: list[Any]) -> Any:
    """Apply the function ``name`` to evaluated ``values``."""
    check_arity(name, len(values))
    return FUNCTIONS[name][2](*values)
