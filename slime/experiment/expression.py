"""Rules as data: a restricted Python expression, parsed once, evaluated the same way in Python and JavaScript.

``train_gpus % (tp * pp * cp) == 0`` becomes ``["==", ["%", ["var", "train_gpus"], ...], ["lit", 0]]``. The parser
exists only here; the browser gets the lists. The semantics, each line a place where two languages would differ:

- Values are integers within +-(2**53 - 1), booleans, texts, null and lists. There are no floats: numbers such as
  ``1e-6`` stay texts from end to end.
- ``//`` and ``%`` take a positive divisor only and round towards minus infinity.
- There is no truthiness: ``and``, ``or``, ``not`` and ``if`` demand booleans. ``and`` and ``or`` stop early.
- ``==`` never coerces: values of two types differ, a boolean is no integer, lists are never equal to anything.
  Ordering exists for integers alone. ``in`` wants a list on its right.
- Texts are counted in code points (``len``) and have no order and no index; named predicates replace regular
  expressions.
- Every error carries a code, and both engines give the same code for the same expression and names.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from slime.experiment.errors import ExpressionError
from slime.experiment.evaluation import Run, compiled
from slime.experiment.functions import FUNCTIONS, check_arity

Value: TypeAlias = "int | bool | str | list[Value] | None"
Tree: TypeAlias = "list[Any]"

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """One parsed expression: its source ``text`` (for messages) and its ``tree`` (what both engines evaluate)."""

    text: str
    tree: Tree

    @cached_property
    def _run(self) -> Run:
        return compiled(self.tree)

    def names(self) -> set[str]:
        """Every variable the expression reads."""
        return set(_variables(self.tree))

    def evaluate(self, names: Mapping[str, Value]) -> Value:
        """The value under ``names``. Raises ``ExpressionError`` with the expression's text in the message."""
        try:
            value: Value = self._run(names)
            return value
        except ExpressionError as error:
            raise ExpressionError(error.code, f"{error} (in the expression: {self.text})") from None

    def test(self, names: Mapping[str, Value]) -> bool:
        """Like ``evaluate``, for an expression that must give true or false."""
        value = self.evaluate(names)
        if not isinstance(value, bool):
            raise ExpressionError("type", f"expected true or false, got {value!r} (in the expression: {self.text})")
        return value


def parse(source: str | int | bool) -> Expression:
    """Read an expression; a plain integer or boolean (as YAML gives it) is that literal.

    Raises ``ExpressionError`` for anything outside the restricted language, naming the offending part.
    """
    if isinstance(source, (bool, int)):
        return Expression(str(source).lower(), ["lit", source])
    try:
        body = ast.parse(source.strip(), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError("syntax", f"cannot read the expression {source!r}: {error.msg}") from None
    return Expression(source, _lower(body))


TRUE = parse(True)
"""The condition that always holds."""


def _lower(node: ast.expr) -> Tree:
    match node:
        case ast.Constant(value=bool() | int() | str() | None):
            return ["lit", node.value]
        case ast.Name(id="true" | "false"):
            return ["lit", node.id == "true"]
        case ast.Name(id="null"):
            return ["lit", None]
        case ast.Name():
            return ["var", node.id]
        case ast.List():
            return ["list", *map(_lower, node.elts)]
        case ast.BinOp() if type(node.op) in _BINARY:
            return [_BINARY[type(node.op)], _lower(node.left), _lower(node.right)]
        case ast.Compare(ops=[operator], comparators=[right]) if type(operator) in _COMPARE:
            return [_COMPARE[type(operator)], _lower(node.left), _lower(right)]
        case ast.BoolOp():
            return ["and" if isinstance(node.op, ast.And) else "or", *map(_lower, node.values)]
        case ast.UnaryOp(op=ast.Not()):
            return ["not", _lower(node.operand)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)) if not isinstance(number, bool):
            return ["lit", -number]
        case ast.IfExp():
            return ["if", _lower(node.test), _lower(node.body), _lower(node.orelse)]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            check_arity(name, len(node.args))
            return [name, *map(_lower, node.args)]
    raise ExpressionError("syntax", f"not allowed in an expression: {ast.unparse(node)}")


def _variables(tree: Tree) -> list[str]:
    if tree[0] == "var":
        return [tree[1]]
    if tree[0] == "lit":
        return []
    return [name for part in tree[1:] for name in _variables(part)]


def evaluate(tree: Tree, names: Mapping[str, Value]) -> Value:
    """Evaluate a parsed ``tree`` under ``names``. Raises ``ExpressionError``; never anything else."""
    value: Value = compiled(tree)(names)
    return value
