"""Configuration files: YAML or JSON, one flat mapping of flags, each value with its file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slime.config.config import REGISTRY
from slime.config.errors import Problem
from slime.config.parsing import Assignment, unknown
from slime.config.values import ValueProblem, from_data
from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import YamlError, load_yaml_with_lines

MAX_BYTES = 1024 * 1024


def read_file(path: str) -> tuple[list[Assignment], list[Problem]]:
    """Read ``--config FILE``: keys are flag names, with or without ``--``, with ``-`` or ``_``.

    JSON is read as the YAML 1.2 that it is, so ``on``, ``off``, ``yes`` and ``no`` are words and ``010`` is ten.
    Unknown keys and values of the wrong type are problems with ``FILE:LINE``, all of them; a file that is no YAML, or
    has a key twice, is one problem.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Problem("cfg", f"--config {path} cannot be read: {reason}")]
    if len(data) > MAX_BYTES:
        return [], [Problem("cfg", f"--config {path} has {len(data)} bytes; {MAX_BYTES} is the most that is read")]
    try:
        root, lines = load_yaml_with_lines(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return [], [Problem("cfg", f"--config {path} is not UTF-8: {error.reason} at byte {error.start}")]
    except YamlError as error:
        return [], [Problem("cfg", f"{path}:{error.line + 1}: {error.message}")]
    if root is None:
        return [], []
    if not isinstance(root, dict):
        return [], [Problem("cfg", f"{path}:{lines[()] + 1}: a mapping of flags to values is expected")]
    return _read_mapping(path, root, lines)


def _read_mapping(
    path: str, root: Mapping[str, Any], lines: Mapping[KeyPath, int]
) -> tuple[list[Assignment], list[Problem]]:
    found: list[Assignment] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for key, value in root.items():
        line = lines[(key,)] + 1
        origin = f"{path}:{line}"
        name = "--" + key.removeprefix("--").replace("_", "-")
        if name in seen:
            problems.append(Problem("cfg", f"{origin}: {key} stands on line {seen[name]} already"))
            continue
        seen[name] = line
        one = REGISTRY.get(name)
        if one is None:
            problems.append(unknown(name, origin))
            continue
        try:
            found.append(Assignment(one, from_data(one, value), origin))
        except ValueProblem as error:
            at = lines.get((key, error.item), line - 1) + 1 if error.item is not None else line
            problems.append(Problem("cfg", f"{path}:{at}: {error}", flags=(name,)))
    return found, problems
