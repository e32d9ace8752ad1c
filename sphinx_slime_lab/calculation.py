"""Numbers of the guides: a small arithmetic over formulas and facts, evaluated while the page is read.

    advantage(4, 4); .4f                       a formula of ``sphinx_slime_lab.formulas``, and how its result is written
    1.02 ** 1000; .3g                          plain arithmetic
    bubble(fact("glm-4.7.parallel.pp"), 16); .1%
    bench("tiny-h200", "runs.first.median.mean gap"); .4f    a measurement in ``bench/results``
    bench_max("layouts-h200", "family=glm4", "gradient"); .0e    the largest among some entries of a list

Only numbers, texts, ``+ - * / // **``, formulas, ``fact``, ``bench`` and ``bench_max`` exist: a page can compute and
do nothing else.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slime.experiment.facts import Facts
from slime.experiment.texts import nearest
from sphinx_slime_lab import formulas
from sphinx_slime_lab.facts import NARROW_SPACE, FactPathError, look_up, show

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


@dataclass(frozen=True)
class Sources:
    """Where the numbers of a calculation come from: the recipes, and the folder of measurements."""

    facts: Facts
    results: Path


def calculate(sources: Sources, text: str) -> str:
    """Return the result of ``expression; format`` as a text. Raises ``CalculationError``."""
    expression, _, form = text.partition(";")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _value(sources, tree.body)
        return show(value) if not form.strip() else _written(value, form.strip())
    except CalculationError:
        raise
    except SyntaxError as error:
        raise CalculationError(f"{expression.strip()!r} is no expression: {error.msg}") from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise CalculationError(f"{text!r} has no result: {error}") from error
    except FactPathError as error:
        raise CalculationError(str(error)) from error


def _results(results: Path, name: str) -> Any:
    file = results / f"{name}.json"
    if not file.is_file():
        found = sorted(one.stem for one in results.glob("*.json"))
        raise CalculationError(f"there is no measurement {name!r}; write {nearest(name, found) or ', '.join(found)}")
    return json.loads(file.read_text(encoding="utf-8"))


def largest(results: Path, name: str, which: str, key: str) -> Any:
    """Return the largest ``key`` of the entries of a list in which ``which`` holds.

    ``family=glm4`` chooses in a file that is a list, ``runs.algorithm=sft`` in its list ``runs``. Raises
    ``CalculationError`` when there are none.
    """
    path, _, wanted = which.partition("=")
    *above, field = path.split(".")
    entries = measured(results, name, ".".join(above)) if above else _results(results, name)
    found = (
        [one[key] for one in entries if str(one.get(field)) == wanted and key in one]
        if isinstance(entries, list)
        else []
    )
    if not found:
        raise CalculationError(f"{name}.json has no list with an entry of {which!r} and {key!r}")
    return max(found)


def measured(results: Path, name: str, path: str) -> Any:
    """Return one number of ``bench/results/<name>.json`` by its dotted path. Raises ``CalculationError``."""
    value = _results(results, name)
    for key in path.split("."):
        known = {str(at): one for at, one in enumerate(value)} if isinstance(value, list) else value
        if not isinstance(known, dict) or key not in known:
            close = nearest(key, known) if isinstance(known, dict) else None
            raise CalculationError(f"{name}.json has no {path!r}" + (f"; did you mean {close}?" if close else ""))
        value = known[key]
    return value


def _written(value: Any, form: str) -> str:
    """A true minus sign, and groups of three digits apart, as facts have them."""
    return format(value, form).replace("-", "\u2212").replace(",", NARROW_SPACE)


def _value(sources: Sources, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(sources, node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(sources, node.left), _value(sources, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(sources, node.func.id, [_value(sources, one) for one in node.args])
    raise CalculationError(f"{ast.unparse(node)!r} is not allowed in a calculation")


def _called(sources: Sources, name: str, arguments: list[Any]) -> Any:
    if name == "fact":
        return look_up(sources.facts, *arguments)
    if name == "bench":
        return measured(sources.results, *arguments)
    if name == "bench_max":
        return largest(sources.results, *arguments)
    known = names()
    if name not in known:
        close = nearest(name, known)
        raise CalculationError(f"there is no formula {name!r}" + (f"; did you mean {close}?" if close else ""))
    return known[name](*arguments)
