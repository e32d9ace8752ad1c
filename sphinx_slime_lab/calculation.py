"""Numbers of the guides: a small arithmetic over formulas and facts, evaluated while the page is read.

    advantage(4, 4); .4f                       a formula of ``sphinx_slime_lab.formulas``, and how its result is written
    1.02 ** 1000; .3g                          plain arithmetic
    bubble(fact("glm-4.7.parallel.pp"), 16); .1%

Only numbers, texts, ``+ - * / // **``, formulas and ``fact`` exist, so a page can compute and do nothing else.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from slime.experiment.facts import Facts
from slime.experiment.texts import nearest
from sphinx_slime_lab import formulas
from sphinx_slime_lab.facts import FactPathError, look_up, show

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


class CalculationError(ValueError):
    """The text is no calculation, or it has no result; ``str()`` is a sentence."""


def names() -> dict[str, Callable[..., Any]]:
    """Return the formulas that a calculation may call."""
    return {
        name: value
        for name, value in vars(formulas).items()
        if callable(value) and getattr(value, "__module__", "") == formulas.__name__ and not name.startswith("_")
    }


def calculate(facts: Facts, text: str) -> str:
    """Return the result of ``expression; format`` as a text. Raises ``CalculationError``."""
    expression, _, form = text.partition(";")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _value(facts, tree.body)
        return show(value) if not form.strip() else _written(value, form.strip())
    except SyntaxError as error:
        raise CalculationError(f"{expression.strip()!r} is no expression: {error.msg}") from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise CalculationError(f"{text!r} has no result: {error}") from error
    except FactPathError as error:
        raise CalculationError(str(error)) from error


def _written(value: Any, form: str) -> str:
    """A true minus sign, and groups of three digits apart, as facts have them."""
    return format(value, form).replace("-", "\u2212").replace(",", "\u202f")


def _value(facts: Facts, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(facts, node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(facts, node.left), _value(facts, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [_value(facts, one) for one in node.args]
        if node.func.id == "fact":
            return look_up(facts, *arguments)
        known = names()
        if node.func.id not in known:
            close = nearest(node.func.id, known)
            raise CalculationError(
                f"there is no formula {node.func.id!r}" + (f"; did you mean {close}?" if close else "")
            )
        return known[node.func.id](*arguments)
    raise CalculationError(f"{ast.unparse(node)!r} is not allowed in a calculation")
