"""What rules without a check claim of the sources: no temperature is written out, nothing unpickles objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import slime

SOURCES = sorted(Path(slime.__file__).parent.rglob("*.py"))


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path, node


def is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def fixed_temperatures(path: Path, node: ast.AST) -> list[str]:
    """Calls with ``temperature=0.7`` and mappings with ``"temperature": 0.7``."""
    found: list[str] = []
    if isinstance(node, ast.Call):
        named = [one for one in node.keywords if one.arg == "temperature" and is_number(one.value)]
        found += [f"{path}:{one.value.lineno}" for one in named]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        keys = [(key, value) for key, value in pairs if isinstance(key, ast.Constant) and key.value == "temperature"]
        found += [f"{path}:{key.lineno}" for key, value in keys if is_number(value)]
    return found


def unpickling(path: Path, node: ast.AST) -> list[str]:
    """``torch.load`` that may unpickle, and every ``pickle.load``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    if node.func.attr not in ("load", "loads") or owner not in ("torch", "pickle", "dill", "cloudpickle"):
        return []
    safe = any(
        one.arg == "weights_only" and isinstance(one.value, ast.Constant) and one.value.value is True
        for one in node.keywords
    )
    return [] if safe else [f"{path}:{node.lineno}"]


def test_no_temperature_is_written_out() -> None:
    """Known failure 59.

    Two parts ask an engine for answers that no training reads: its first request only proves that it answers, and the
    conformance checks compare what it says with what it says again.
    """
    found = [place for path, node in nodes() for place in fixed_temperatures(path, node)]
    allowed = ("slime/sglang/engine.py:", "slime/sglang/conformance/")
    assert [place for place in found if not any(part in place for part in allowed)] == []


def test_nothing_unpickles_objects() -> None:
    """Known failure 44."""
    assert [place for path, node in nodes() for place in unpickling(path, node)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [("f(temperature=0)", 1), ("f(temperature=t)", 0), ('{"temperature": 0.7}', 1), ('{"temperature": t}', 0)],
)
def test_the_search_finds_temperatures(text: str, found: int) -> None:
    places = [place for node in ast.walk(ast.parse(text)) for place in fixed_temperatures(Path("x.py"), node)]
    assert len(places) == found


@pytest.mark.parametrize(
    ("text", "found"), [("torch.load(p)", 1), ("torch.load(p, weights_only=True)", 0), ("pickle.loads(b)", 1)]
)
def test_the_search_finds_unpickling(text: str, found: int) -> None:
    places = [place for node in ast.walk(ast.parse(text)) for place in unpickling(Path("x.py"), node)]
    assert len(places) == found
