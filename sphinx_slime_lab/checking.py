"""From the YAML of a directive to an experiment or to problems, each with the line that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slime.experiment.choices import Ignored
from slime.experiment.texts import Text, shorten
from slime.experiment.validation import Finding
from slime.experiment.yaml_lines import Path as KeyPath
from slime.experiment.yaml_lines import YamlError, load_yaml_with_lines
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
    """The experiment, unless the source could not be read or has keys or values that do not exist."""

    experiment: Experiment | None
    problems: list[Problem]


def check(bench: Workbench, text: str, preset: Mapping[str, Any]) -> Checked:
    """Read choices, after ``preset``, and judge them. Wrong keys, wrong values and errors become problems."""
    try:
        data, lines = load_yaml_with_lines(text)
    except YamlError as error:
        return Checked(None, [Problem("yaml", error.line, Text(error.message, error.message))])
    raw: Any = {**preset, **({} if data is None else data)} if isinstance(data, (Mapping, type(None))) else data
    prefix: KeyPath = ("choices",) if isinstance(data, Mapping) and "schema" in data else ()
    result = bench.catalog.sanitise(raw)
    lost = [_ignored(one, lines, prefix, data) for one in result.ignored if one.kind != "cleaned"]
    if lost:
        return Checked(None, lost)
    experiment = bench.experiment(result.state)
    return Checked(experiment, [_error(one, lines, prefix) for one in experiment.errors])


def _ignored(one: Ignored, lines: Mapping[KeyPath, int], prefix: KeyPath, data: Any) -> Problem:
    key = _original_key(one.key, data)
    hint_zh = f"最接近的是 {one.nearest}。" if one.nearest else ""
    hint_en = f" The nearest is {one.nearest}." if one.nearest else ""
    subtype: Subtype = "yaml" if not one.key else "key" if one.kind in ("unknown", "retired") else "value"
    message = Text(one.reason.zh + hint_zh, one.reason.en + hint_en)
    paths: list[KeyPath] = [(*prefix, key), (key,)] if key else [()]
    return Problem(subtype, _line(lines, paths), message)


def _original_key(key: str, data: Any) -> str:
    """Return the key as written: a message shows a long or strange key shortened."""
    if isinstance(data, Mapping):
        for written in data:
            if shorten(written) == key:
                return str(written)
    return key


def _error(finding: Finding, lines: Mapping[KeyPath, int], prefix: KeyPath) -> Problem:
    """Point at the first field of the finding that the source has, else at the model, else at the source."""
    fields = [*finding.fields, "model"]
    where = _line(lines, [(*prefix, name) for name in fields])
    message = Text(f"{finding.id}：{finding.message.zh}", f"{finding.id}: {finding.message.en}")
    return Problem("finding", where, message, finding.id)


def _line(lines: Mapping[KeyPath, int], paths: list[KeyPath]) -> int | None:
    for path in paths:
        if path in lines:
            return lines[path]
    return None
