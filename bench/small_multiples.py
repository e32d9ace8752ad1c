"""An SVG picture of several small charts with the same axes; legible on light and on dark pages."""

from __future__ import annotations

import math
from dataclasses import dataclass

Points = list[tuple[int, float]]
"""(round, fraction)."""

COLUMNS, CELL_WIDTH, CELL_HEIGHT = 3, 232, 164
LEFT, RIGHT, TOP, BOTTOM = 34, 10, 30, 22  # around the plot, inside its cell
TICK = 0.1
STYLE = """
text { font: 12px sans-serif; fill: #24292f } .name { font-weight: 600 } .note, .tick { fill: #57606a }
.grid { stroke: #d8dee4 } .start { stroke: #57606a; stroke-dasharray: 3 3 }
.band { fill: #1f5fbf; fill-opacity: .16 } .mean { stroke: #1f5fbf; stroke-width: 2.4 }
.seed { stroke: #1f5fbf; stroke-opacity: .5 } polyline { fill: none } .page { fill: #fff }
@media (prefers-color-scheme: dark) {
 text { fill: #e6e8eb } .note, .tick { fill: #a8b0ba } .grid { stroke: #3a414a } .start { stroke: #a8b0ba }
 .band { fill: #7ab6f7; fill-opacity: .22 } .mean, .seed { stroke: #7ab6f7 } .page { fill: #131416 }
}
"""


@dataclass(frozen=True)
class Panel:
    """One chart: its name, a short note at the right, and a line for each seed."""

    name: str
    note: str
    lines: list[Points]


def small_multiples(title: str, panels: list[Panel]) -> str:
    """A chart for each panel: thin lines for seeds, a thick one for their mean, a band from the least to the most.

    The dashed line is the mean of the first readings. At least one panel has a line.
    """
    points = [point for panel in panels for line in panel.lines for point in line]
    low = math.floor(min(value for _, value in points) / TICK) * TICK
    high = math.ceil(max(value for _, value in points) / TICK) * TICK
    scale = _Scale(max(number for number, _ in points), low, high)
    rows = math.ceil(len(panels) / COLUMNS)
    width, height = COLUMNS * CELL_WIDTH, rows * CELL_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<title>{title}</title><style>{STYLE}</style><rect class="page" width="{width}" height="{height}"/>',
    ]
    for at, panel in enumerate(panels):
        x, y = at % COLUMNS * CELL_WIDTH, at // COLUMNS * CELL_HEIGHT
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, scale)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True)
class _Scale:
    rounds: int
    low: float
    high: float

    def x(self, number: float) -> float:
        return round(LEFT + (CELL_WIDTH - LEFT - RIGHT) * number / self.rounds, 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(CELL_HEIGHT - BOTTOM - (CELL_HEIGHT - BOTTOM - TOP) * share, 1)

    def path(self, points: Points) -> str:
        return " ".join(f"{self.x(number)},{self.y(value)}" for number, value in points)


def _panel(panel: Panel, scale: _Scale) -> str:
    end = CELL_WIDTH - RIGHT
    parts = [
        f'<text class="name" x="{LEFT}" y="18">{panel.name}</text>',
        f'<text class="note" x="{end}" y="18" text-anchor="end">{panel.note}</text>',
    ]
    for step in range(round((scale.high - scale.low) / TICK) + 1):
        value = scale.low + step * TICK
        y = scale.y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{end}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{value:.1f}</text>')
    for number in (0, scale.rounds // 2, scale.rounds):
        anchor = "end" if number == scale.rounds else "middle"
        parts.append(
            f'<text class="tick" x="{scale.x(number)}" y="{CELL_HEIGHT - 6}" text-anchor="{anchor}">{number}</text>'
        )
    if panel.lines:
        parts += _curves(panel.lines, scale)
    return "".join(parts)


def _curves(lines: list[Points], scale: _Scale) -> list[str]:
    values: dict[int, list[float]] = {}
    for line in lines:
        for number, value in line:
            values.setdefault(number, []).append(value)
    numbers = sorted(values)
    upper = [(number, max(values[number])) for number in numbers]
    lower = [(number, min(values[number])) for number in reversed(numbers)]
    mean = [(number, sum(values[number]) / len(values[number])) for number in numbers]
    start = scale.y(mean[0][1])
    return [
        f'<path class="start" d="M{LEFT} {start}H{CELL_WIDTH - RIGHT}"/>',
        f'<polygon class="band" points="{scale.path(upper + lower)}"/>',
        *(f'<polyline class="seed" points="{scale.path(line)}"/>' for line in lines),
        f'<polyline class="mean" points="{scale.path(mean)}"/>',
    ]
