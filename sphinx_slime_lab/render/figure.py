"""Drawing for the explanatory pictures: a list of marks becomes one SVG with a title and a description.

Colours and shapes follow the site's one visual language: training is square and blue, rollout rounded and orange, the
verifier a green hexagon, samples dashed and teal, weights purple. Only classes and integers are written; the
stylesheet has the colours, and every picture stands next to a table or a sentence with the same facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.render.svg import HEAD_LENGTH, HEAD_WIDTH, ROUND, Mark, element

BASELINE = 4
"""From the middle of a line of text down to its baseline, in px."""


@dataclass
class Figure:
    """Marks in drawing order; sizes in px of the view box.

    ``phase`` is given to the marks that follow: when a round is played, its phases light up one after the other.
    """

    width: int
    height: int
    title: str
    description: str
    marks: list[Mark] = field(default_factory=list)
    phase: str = ""

    def add(self, tag: str, cls: str, attributes: dict[str, object], text: str = "") -> None:
        """Add one element, with the classes of ``cls`` and of the phase."""
        self.marks.append((tag, {"class": _classes(f"{cls} {self.phase}"), **attributes}, text))

    def box(self, cls: str, x: int, y: int, w: int, h: int, label: str = "") -> None:
        """Add a rectangle, rounded for rollout, with a text in its middle."""
        attributes: dict[str, object] = {"x": x, "y": y, "width": w, "height": h}
        if {"rollout", "prefill", "decode"} & set(cls.split()):
            attributes["rx"] = ROUND
        self.add("rect", f"box {cls}", attributes)
        if label:
            self.text("count", x + w // 2, y + h // 2 + BASELINE, label)

    def hexagon(self, cls: str, x: int, y: int, w: int, h: int, label: str = "") -> None:
        """Add a hexagon with a text in its middle."""
        middle, cut = y + h // 2, h // 3
        points = [(x, middle), (x + cut, y), (x + w - cut, y), (x + w, middle), (x + w - cut, y + h), (x + cut, y + h)]
        written = " ".join(f"{left},{top}" for left, top in points)
        self.add("polygon", f"box {cls}", {"points": written})
        if label:
            self.text("count", x + w // 2, middle + BASELINE, label)

    def text(self, cls: str, x: int, y: int, text: str) -> None:
        """Add a text; ``count`` and ``label`` are centred, everything else starts at ``x``."""
        self.add("text", cls, {"x": x, "y": y}, text)

    def line(self, cls: str, x1: int, y1: int, x2: int, y2: int) -> None:
        """Add a line."""
        self.add("line", f"line {cls}", {"x1": x1, "y1": y1, "x2": x2, "y2": y2})

    def cylinder(self, x: int, y: int, w: int, h: int, label: str) -> None:
        """Add memory of the host or a disk: a cylinder with a text in its middle."""
        dome = 5
        d = (
            f"M{x} {y + dome}A{w // 2} {dome} 0 0 1 {x + w} {y + dome}V{y + h - dome}"
            f"A{w // 2} {dome} 0 0 1 {x} {y + h - dome}ZM{x} {y + dome}A{w // 2} {dome} 0 0 0 {x + w} {y + dome}"
        )
        self.add("path", "box host", {"d": d})
        self.text("count", x + w // 2, y + h // 2 + BASELINE + 2, label)

    def arrow(self, cls: str, x1: int, y1: int, x2: int, y2: int, label: str = "") -> None:
        """Add a horizontal or vertical arrow, its label above the middle or right of it."""
        if y1 == y2:
            sign = 1 if x2 > x1 else -1
            back = x2 - sign * HEAD_LENGTH
            self.line(cls, x1, y1, back, y2)
            points = f"{x2},{y2} {back},{y2 - HEAD_WIDTH} {back},{y2 + HEAD_WIDTH}"
            at = ("label", (x1 + x2) // 2, y1 - 8)
        else:
            sign = 1 if y2 > y1 else -1
            back = y2 - sign * HEAD_LENGTH
            self.line(cls, x1, y1, x2, back)
            points = f"{x2},{y2} {x2 - HEAD_WIDTH},{back} {x2 + HEAD_WIDTH},{back}"
            at = ("note", x1 + 6, (y1 + y2) // 2 + BASELINE)
        self.add("polygon", f"head {cls}", {"points": points})
        if label:
            self.text(f"{at[0]} {cls}", at[1], at[2], label)

    def svg(self, uid: str) -> str:
        """Return the ``svg`` element; ``uid`` starts the two ids that name it."""
        title, description = f"{uid}-title", f"{uid}-description"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-labelledby="{title} {description}">',
            f'<title id="{title}">{escape(self.title)}</title>',
            f'<desc id="{description}">{escape(self.description)}</desc>',
        ]
        return "\n".join([*parts, *map(element, self.marks), "</svg>\n"])

    def node(self, uid: str) -> ours.lab_picture:
        """Return the picture as a node that HTML draws and other builders leave out."""
        return ours.lab_picture(svg=self.svg(uid), css="slime-figure")


def _classes(names: str) -> str:
    return " ".join(f"sl-{name}" for name in names.split())
