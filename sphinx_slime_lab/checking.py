"""From the YAML of a directive to an experiment or to problems, each with the line that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slime.experiment.choices import LOST, Ignored, unwrap
from slime.experiment.errors import InputError
from slime.experiment.importing import limit_keys
from slime.experiment.reading import Choices, read_text
from slime.experiment.texts import Text
from slime.experiment.validation import Finding
from sphinx_slime_lab.messages import Subtype
from sphinx_slime_lab.workbench import Experiment, Workbench


@dataclass(frozen=True)
class Problem:
    """One sentence about a source; ``line`` is zero-based, None for the directive itself."""

    subtype: Subtype
    line: int | None
    message: Text
    finding: str | None = None

    @classmethod
    def missing(cls, rule: str) -> Problem:
        """Return the problem that ``:expect:`` names a finding which is not there."""
        text = Text(
            f":expect: 写了 {rule}，但这个实验没有这条错误。",
            f":expect: names {rule}, but the experiment has no such error.",
        )
        return cls("expect", None, text)


@dataclass(frozen=True)
class Checked:
    """The experiment, unless the source could not be read or has keys or values that do not exist.

    ``notes`` are what the terminal prints and goes on after: retired keys, cleaned texts, choices that the model lacks.
    """

    experiment: Experiment | None
    problems: list[Problem]
    notes: list[Problem] = field(default_factory=list)


def check(bench: Workbench, text: str, preset: Mapping[str, Any]) -> Checked:
    """Read choices, after ``preset``, and judge them. Wrong keys, wrong values and errors become problems.

    What is read, and what of it is an error, is the same as in ``slime lab check``.
    """
    try:
        choices = read_text(text, "")
        limit_keys(bench.catalog.tables, unwrap(choices.raw)[0])
    except InputError as error:
        return Checked(None, [Problem("yaml", error.line, error.reason)])
    raw = {**preset, **choices.raw} if isinstance(choices.raw, Mapping) else choices.raw
    result = bench.catalog.sanitise(raw)
    lost = [_ignored(one, choices) for one in result.ignored if one.kind in LOST]
    if lost:
        return Checked(None, lost)
    notes = [_ignored(one, choices) for one in result.ignored]
    experiment = bench.experiment(result.state)
    return Checked(experiment, [_error(bench, one, choices) for one in experiment.errors], notes)


def _ignored(one: Ignored, choices: Choices) -> Problem:
    hint_zh = f"最接近的是 {one.nearest}。" if one.nearest else ""
    hint_en = f" The nearest is {one.nearest}." if one.nearest else ""
    subtype: Subtype = "yaml" if not one.key else "key" if one.kind in ("unknown", "retired") else "value"
    message = Text(one.reason.zh + hint_zh, one.reason.en + hint_en)
    return Problem(subtype, _line(choices, [one.key]) if one.key else choices.lines.get(()), message)


def _error(bench: Workbench, finding: Finding, choices: Choices) -> Problem:
    """Point at the first choice behind the finding that the source has, else at the source."""
    message = Text(f"{finding.id}：{finding.message.zh}", f"{finding.id}: {finding.message.en}")
    return Problem("finding", _line(choices, bench.catalog.suspects(finding)), message, finding.id)


def _line(choices: Choices, keys: list[str]) -> int | None:
    """The zero-based line of the first key that the source has."""
    found = [line - 1 for line in map(choices.line, keys) if line is not None]
    return found[0] if found else None
