"""Configuration files: YAML or JSON, one flat mapping of flags, each value with its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from slime.config.config import REGISTRY
from slime.config.errors import Problem
from slime.config.parsing import Assignment, unknown
from slime.config.values import ValueProblem, from_data

MAX_BYTES = 1024 * 1024


def read_file(path: str) -> tuple[list[Assignment], list[Problem]]:
    """Read ``--config FILE``: keys are flag names, with or without ``--``, with ``-`` or ``_``.

    JSON is read as the YAML that it is. Duplicate keys, unknown keys and values of the wrong type are problems with
    ``FILE:LINE``.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Problem("cfg", f"--config {path} cannot be read: {reason}")]
    if len(data) > MAX_BYTES:
        return [], [Problem("cfg", f"--config {path} has {len(data)} bytes; {MAX_BYTES} is the most that is read")]
    try:
        root = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        return [], [Problem("cfg", f"--config {path} is not UTF-8: {error.reason} at byte {error.start}")]
    except (yaml.YAMLError, RecursionError) as error:
        return [], [Problem("cfg", f"{_place(path, error)}: not YAML: {_reason(error)}")]
    if root is None:
        return [], []
    if not isinstance(root, yaml.MappingNode):
        return [], [Problem("cfg", f"{path}:1: a mapping of flags to values is expected")]
    return _read_mapping(path, root)


def _read_mapping(path: str, root: yaml.MappingNode) -> tuple[list[Assignment], list[Problem]]:
    found: list[Assignment] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for key_node, value_node in root.value:
        line = key_node.start_mark.line + 1
        origin = f"{path}:{line}"
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(Problem("cfg", f"{origin}: a key is the name of a flag"))
            continue
        name = "--" + key_node.value.removeprefix("--").replace("_", "-")
        if name in seen:
            problems.append(Problem("cfg", f"{origin}: {key_node.value} stands on line {seen[name]} already"))
            continue
        seen[name] = line
        one = REGISTRY.get(name)
        if one is None:
            problems.append(unknown(name, origin))
            continue
        try:
            found.append(Assignment(one, from_data(one, _construct(value_node)), origin))
        except ValueProblem as error:
            problems.append(Problem("cfg", f"{path}:{value_node.start_mark.line + 1}: {error}", flags=(name,)))
    return found, problems


def _construct(node: yaml.Node) -> Any:
    """The Python value of a node. SafeLoader makes plain values only; dates and binary stay what YAML makes them."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ValueProblem(f"not a value: {_reason(error)}") from None
    finally:
        loader.dispose()


def _place(path: str, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{path}:{mark.line + 1}" if mark is not None else path


def _reason(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0] if str(error) else type(error).__name__
