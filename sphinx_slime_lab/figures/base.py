"""What a figure is, and a pair of axes to draw functions on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sphinx_slime_lab.locale import Language
from sphinx_slime_lab.render.figure import Figure

WIDTH = 440


@dataclass(frozen=True)
class Drawn:
    """A picture, and the table with its numbers."""

    figure: Figure
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def pick(language: Language, zh: str, en: str) -> str:
    """Return the text of the language."""
    return zh if language == "zh" else en


@dataclass(frozen=True)
class Axes:
    """Maps values to px; ``left`` to ``right`` in x, ``bottom`` to ``top`` in y."""

    figure: Figure
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 44
    right: int = WIDTH - 56
    top: int = 18
    bottom: int = 130

    def at(self, x: float, y: float) -> tuple[int, int]:
        """Return the place of a pair of values."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return round(self.left + across * (self.right - self.left)), round(self.bottom - up * (self.bottom - self.top))

    def frame(self, ticks_x: Sequence[float], ticks_y: Sequence[float], name_x: str, name_y: str) -> None:
        """Draw both axes through the origin of the values, with numbers at the ticks."""
        base = min(max(0.0, self.y[0]), self.y[1])
        self.figure.line("axis", *self.at(self.x[0], base), *self.at(self.x[1], base))
        self.figure.line("axis", *self.at(self.x[0], self.y[0]), *self.at(self.x[0], self.y[1]))
        for tick in ticks_x:
            x, _ = self.at(tick, self.y[0])
            self.figure.text("small", x, self.bottom + 15, f"{tick:g}")
        for tick in ticks_y:
            x, y = self.at(self.x[0], tick)
            self.figure.text("small", x - 14, y + 4, f"{tick:g}".replace("-", "\u2212"))
        self.figure.text("small", self.right + 26, self.bottom + 15, name_x)
        self.figure.text("small", self.left - 4, self.top - 6, name_y)

    def curve(self, cls: str, function: Callable[[float], float], corners: Sequence[float], steps: int = 1) -> None:
        """Draw a function between its corners; ``steps`` pieces for each stretch that is not straight.

        The function is asked slightly inside each stretch, so that a jump at a corner leaves a gap.
        """
        for start, end in pairwise(corners):
            inside = (end - start) * 1e-9
            found = [start + inside + (end - start - 2 * inside) * step / steps for step in range(steps + 1)]
            for one, two in pairwise(found):
                self.figure.line(cls, *self.at(one, function(one)), *self.at(two, function(two)))

    def name(self, cls: str, x: float, y: float, text: str) -> None:
        """Write the name of a curve at a place, in the ink of the text."""
        at_x, at_y = self.at(x, y)
        self.figure.text(cls, at_x, at_y, text)
