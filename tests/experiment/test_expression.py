"""Expressions, predicates and functions: the written-down semantics, and equality with the twin on random trees."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from slime.experiment import Catalog, ExpressionError
from slime.experiment.expression import Value, evaluate, parse
from slime.experiment.functions import FUNCTIONS
from slime.experiment.predicates import PREDICATES
from slime.experiment.quoting import quote
from slime.experiment.texts import Text, fill, nearest

from .corpus import load_table
from .twin import ask

EXPRESSIONS = load_table("expressions")
PREDICATE_TABLE = load_table("predicates")
RANDOM_TREES = 6000


@pytest.mark.parametrize("case", EXPRESSIONS["cases"], ids=lambda case: case["expression"])
def test_semantics(case: dict[str, Any]) -> None:
    expression = parse(case["expression"])
    if "error" in case:
        with pytest.raises(ExpressionError) as caught:
            expression.evaluate(EXPRESSIONS["names"])
        assert caught.value.code == case["error"]
        assert case["expression"] in str(caught.value)
    else:
        value = expression.evaluate(EXPRESSIONS["names"])
        assert json.dumps(value) == json.dumps(case["value"])


@pytest.mark.parametrize("text", EXPRESSIONS["refused"])
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.code in ("syntax", "arity")


def test_every_function_and_predicate_has_a_case() -> None:
    used = {name for case in EXPRESSIONS["cases"] for name in FUNCTIONS if f"{name}(" in case["expression"]}
    assert used | set(PREDICATE_TABLE) == set(FUNCTIONS)
    assert set(PREDICATE_TABLE) == set(PREDICATES)


@pytest.mark.parametrize("name", PREDICATE_TABLE)
def test_predicates(name: str) -> None:
    for text in PREDICATE_TABLE[name]["accept"]:
        assert PREDICATES[name](text), text
    for text in PREDICATE_TABLE[name]["reject"]:
        assert not PREDICATES[name](text), text


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(ExpressionError, match="expected true or false"):
        parse("1").test({})


def test_names_lists_every_variable() -> None:
    assert parse("a if b in [c, 'd'] else max(e, 1)").names() == {"a", "b", "c", "e"}


@pytest.mark.parametrize("case", load_table("nearest"), ids=lambda case: case["name"] or "empty")
def test_nearest(case: dict[str, Any]) -> None:
    assert nearest(case["name"], case["known"]) == case["nearest"]


def test_a_slot_is_filled_once() -> None:
    filled = fill(Text("{a}{b}{c}", "{a}{b}{c}"), {"a": "{b}", "b": 1})
    assert filled == Text("{b}1{c}", "{b}1{c}")


_LEAVES: list[Value] = [
    0,
    1,
    -3,
    8,
    2**53 - 1,
    2**53 - 2,
    10**9,
    True,
    False,
    None,
    "",
    "8",
    "a b",
    "中😀",
    "x.y",
    "/a",
]
_NAMES: dict[str, Value] = {
    "n": 12,
    "zero": 0,
    "flag": True,
    "word": "a,b",
    "xs": [1, "1", True, None, [1]],
    "no": None,
}
_SHAPES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in"), (2, 2)),
    "and": (2, 3),
    "or": (2, 3),
    "not": (1, 1),
    "if": (3, 3),
    "list": (0, 3),
    **{name: (fewest, most or 3) for name, (fewest, most, _) in FUNCTIONS.items()},
}


def _tree(dice: random.Random, depth: int) -> list[Any]:
    if depth == 0 or dice.random() < 0.2:
        if dice.random() < 0.4:
            return ["var", dice.choice([*_NAMES, "missing"])]
        return ["lit", dice.choice(_LEAVES)]
    operator = dice.choice(list(_SHAPES))
    fewest, most = _SHAPES[operator]
    return [operator, *(_tree(dice, depth - 1) for _ in range(dice.randint(fewest, most)))]


def test_both_languages_agree_on_random_trees(catalog: Catalog) -> None:
    """Values and error codes are equal to the byte on random trees, most of them wrong in some way."""
    dice = random.Random(20240601)
    trees = [_tree(dice, dice.randint(1, 4)) for _ in range(RANDOM_TREES)]
    answers = ask(catalog.to_json(), [["evaluate", tree, _NAMES] for tree in trees])
    good = 0
    for tree, answer in zip(trees, answers, strict=True):
        try:
            ours: dict[str, Any] = {"value": evaluate(tree, _NAMES)}
            good += 1
        except ExpressionError as error:
            ours = {"error": error.code}
        assert json.loads(answer) == ours and json.dumps(json.loads(answer)) == json.dumps(ours), (tree, ours, answer)
    assert RANDOM_TREES // 10 < good < RANDOM_TREES


def test_both_languages_agree_on_random_texts(catalog: Catalog) -> None:
    """Predicates, quoting and proposals agree on texts made of the characters where they could differ."""
    dice = random.Random(20240602)
    alphabet = [
        "a",
        "Z",
        "0",
        "9",
        ".",
        "-",
        "_",
        ":",
        "/",
        ",",
        " ",
        "'",
        "[",
        "]",
        "e",
        "+",
        "\n",
        "\u2028",
        "é",
        "１",
        "😀",
    ]
    texts = ["".join(dice.choices(alphabet, k=dice.randint(0, 9))) for _ in range(800)]
    known = ["layout", "a.b", "é", "😀0"]
    requests: list[list[Any]] = []
    for text in texts:
        requests += (["predicate", name, text] for name in PREDICATES)
        requests += (["quote", text], ["nearest", text, known])
    answers = iter(ask(catalog.to_json(), requests))
    for text in texts:
        for name, predicate in PREDICATES.items():
            assert json.loads(next(answers)) == {"value": predicate(text)}, (name, text)
        assert json.loads(next(answers)) == {"value": quote(text)}
        assert json.loads(next(answers)) == {"value": nearest(text, known)}, text
