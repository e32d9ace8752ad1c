"""A flag that nothing reads does not exist: what is registered as running is read by the code that runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slime.config import REGISTRY, Config
from slime.config.flags import Flag
from slime.rollout.hooks import HOOKS

PACKAGE = Path(__file__).parents[2] / "slime"
# Declarations, rules and checks look at flags without acting on them.
NOT_ACTING = ("groups", "validate", "preflight")
# What a Config is called where it is read: `config.lr`, `self.config.lr`, `self._config.lr`, `args.lr` in a hook.
CALLED = {"config", "_config", "args"}


def acting_modules() -> Iterator[Path]:
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] != "config" or parts[1] not in NOT_ACTING:
            yield path


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def reads(tree: ast.AST) -> set[str]:
    """Attributes read from something that is called like a configuration."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and name_of(node.value) in CALLED
    }


def hooks_that_are_called(tree: ast.AST) -> set[str]:
    """Fields of the hooks that the code asks for by name: `hooks.one("rollout-log")`, `load("custom-loss")`."""
    names = {
        argument.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and name_of(node.func) in ("one", "all", "at", "load")
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    return {hook.field for hook in HOOKS if hook.name in names}


def fields_that_are_read() -> set[str]:
    """All such attributes, with what the properties of Config that are among them read in turn, and the hooks."""
    found: set[str] = set()
    for path in acting_modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= reads(tree) | hooks_that_are_called(tree)
    source = ast.parse((PACKAGE / "config" / "config.py").read_text(encoding="utf-8"))
    properties = {
        node.name: {
            one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and name_of(one.value) == "self"
        }
        for node in ast.walk(source)
        if isinstance(node, ast.FunctionDef)
    }
    for _ in properties:  # a property may read another one
        found |= {name for own, names in properties.items() if own in found for name in names}
    return found


def legal_values(one: Flag) -> int:
    """How many values the runtime takes; a value that cannot differ need not be read."""
    return len(one.only or one.choices or ("any", "value"))


def test_what_runs_is_read_or_has_one_legal_value() -> None:
    read = fields_that_are_read()
    assert {"lr", "colocate", "n_samples_per_prompt", "dry_run_json"} <= read
    ignored = [
        name
        for name, one in REGISTRY.items()
        if one.runs and one.source != "sglang" and one.field not in read and legal_values(one) > 1
    ]
    assert ignored == []


def test_every_flag_of_the_engine_that_runs_reaches_the_server() -> None:
    """They are passed on as a whole, so no line of code names them."""
    from slime.cluster.engine_spec import NOT_SERVER_ARGUMENTS, server_arguments

    for one in REGISTRY.values():
        if one.source != "sglang" or not one.runs or one.field in NOT_SERVER_ARGUMENTS:
            continue
        value: object = (one.only or one.choices or ("1",))[0]
        value = True if one.type is bool else one.type(value)
        given: dict[str, Any] = {one.field: (value,) if one.many else value}
        config = Config(**given)
        assert one.name.removeprefix("--sglang-") in server_arguments(config), one.name
