"""What can go wrong with a configuration, in one exception and one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]
Level = Literal["cfg", "hf", "data", "host"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with what would put it right.

    ``level`` is the preflight level that found it (``cfg``, ``hf``, ``data`` or ``host``), ``message`` says what
    failed with its numbers and why, ``hint`` names the nearest legal values. ``flags`` are the flags involved.
    A problem of severity ``warning`` stops nothing. ``rule`` is the id of the preflight rule that found it; what
    cannot be read at all breaks no rule.
    """

    level: Level
    message: str
    hint: str = ""
    flags: tuple[str, ...] = ()
    severity: Severity = "error"
    rule: str = ""

    def __str__(self) -> str:
        text = f"[{' '.join(filter(None, (self.level, self.rule)))}] {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(Exception):
    """Raised for every unusable configuration; ``problems`` holds each finding, ``str(error)`` all of them."""

    exit_code = 2

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem("cfg", problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__(describe(self.problems))


class HelpRequested(ConfigError):
    """``--help`` was among the arguments; ``str(error)`` is the help text and the exit code is 0."""

    exit_code = 0

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


def describe(problems: Sequence[Problem]) -> str:
    """Render problems for a terminal: one line each, numbered when there are several."""
    if len(problems) == 1:
        return _line(problems[0])
    head = f"{len(problems)} problems with the configuration:"
    return "\n".join([head, *(f"  {number}. {_line(problem)}" for number, problem in enumerate(problems, 1))])


def _line(problem: Problem) -> str:
    return f"{problem.message}\n     -> {problem.hint}" if problem.hint else problem.message
