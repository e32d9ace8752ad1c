"""A comparison as lines of a terminal."""

from __future__ import annotations

from slime.experiment.comparison import Comparison, Difference, LineDifference


def comparison_lines(comparison: Comparison, language: str) -> list[str]:
    """Differences by step, generated lines as a diff, findings that only one side has, and the GPUs of both."""
    zh = language == "zh"
    lines: list[str] = []
    for step in comparison.steps:
        lines.append(f"{step.label.get(language)}:")
        lines += [f"  {_difference(one, language)}" for one in step.differences]
    part = ""
    for line in comparison.lines:
        if line.part != part:
            part = line.part
            lines.append(f"{part}:")
        lines += [f"  {one}" for one in _line(line)]
    for pair in comparison.findings:
        if (pair.a is None) == (pair.b is None):
            continue
        side, said = ("A", pair.a) if pair.b is None else ("B", pair.b)
        text = "" if said is None else said.get(language)
        lines.append(f"{'只有' if zh else 'only'} {side}: {pair.severity} {pair.id}: {text}")
    a, b = comparison.totals.a, comparison.totals.b
    lines.append(f"Ray: {a.ray_gpus} => {b.ray_gpus}" + (" 张 GPU" if zh else " GPUs"))
    return lines


def _difference(one: Difference, language: str) -> str:
    shown = f"{one.field}: {one.shown_a.get(language)} => {one.shown_b.get(language)}"
    if one.follows is None:
        return shown
    return f"{shown}（随 {one.follows}）" if language == "zh" else f"{shown} (follows {one.follows})"


def _line(line: LineDifference) -> list[str]:
    removed = [] if line.a is None else [f"- {line.a}"]
    return removed if line.b is None else [*removed, f"+ {line.b}"]
