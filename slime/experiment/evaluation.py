"""From a parsed expression to a function of the names: each node becomes one closure, once.

An experiment is judged by hundreds of expressions at every edit and on every page, so the list is taken apart once. The
semantics are those of ``expression.py``; the browser walks the list itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from slime.experiment.errors import ExpressionError
from slime.experiment.functions import FUNCTIONS, SAFE_INTEGER, call, want_int

Names: TypeAlias = "Mapping[str, Any]"
Run: TypeAlias = "Callable[[Names], Any]"

_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_DIVISION: dict[str, Callable[[int, int], int]] = {"//": operator.floordiv, "%": operator.mod}


def compiled(tree: list[Any]) -> Run:
    """The function of ``tree``. It raises ``ExpressionError`` and never anything else."""
    kind, *parts = tree
    if kind == "lit":
        value = parts[0]
        return lambda names: value
    if kind == "var":
        return _variable(parts[0])
    runs = [compiled(part) for part in parts]
    if kind == "list":
        return lambda names: [run(names) for run in runs]
    if kind in ("and", "or"):
        return _connective(runs, stop_at=kind == "or")
    if kind == "not":
        return lambda names: not _want_bool(runs[0](names))
    if kind == "if":
        condition, then, otherwise = runs
        return lambda names: then(names) if _want_bool(condition(names)) else otherwise(names)
    if kind in FUNCTIONS:
        return lambda names: call(kind, [run(names) for run in runs])
    left, right = runs
    if kind in ("==", "!="):
        return lambda names: _same(left(names), right(names)) == (kind == "==")
    if kind in ("in", "not in"):
        return _membership(left, right, kind)
    return _integers(left, right, kind)


def _variable(name: str) -> Run:
    def read(names: Names) -> Any:
        if name not in names:
            raise ExpressionError("name", f"unknown name {name}")
        return names[name]

    return read


def _connective(runs: list[Run], *, stop_at: bool) -> Run:
    def connect(names: Names) -> bool:
        return any(_want_bool(run(names)) is stop_at for run in runs) is stop_at

    return connect


def _membership(left: Run, right: Run, kind: str) -> Run:
    def search(names: Names) -> bool:
        value, items = left(names), right(names)
        if not isinstance(items, list):
            raise ExpressionError("type", f"expected a list after {kind!r}, got {items!r}")
        return any(_same(value, item) for item in items) == (kind == "in")

    return search


def _integers(left: Run, right: Run, kind: str) -> Run:
    """Both sides are evaluated before either is judged, as in the browser: the first error must be the same one."""

    def calculate(names: Names) -> int | bool:
        a, b = left(names), right(names)
        a, b = want_int(a), want_int(b)
        if kind in _ORDER:
            return _ORDER[kind](a, b)
        if kind in _DIVISION:
            if b <= 0:
                raise ExpressionError("zero", f"{kind} needs a positive divisor, got {b}")
            return _DIVISION[kind](a, b)
        result = _ARITHMETIC[kind](a, b)
        if abs(result) > SAFE_INTEGER:
            raise ExpressionError("range", f"{a} {kind} {b} leaves the range of exact integers")
        return result

    return calculate


def _want_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError("type", f"expected true or false, got {value!r}")
    return value


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and not isinstance(left, list) and left == right
