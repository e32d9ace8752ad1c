"""The GPU layout as SVG, from the engine's drawing list. The twin in the browser is ``js/src/ui/picture.js``.

Only classes and geometry are written: colours come from the stylesheet, so the picture follows the theme, and no
``style`` attribute stands in the way of a strict content security policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from slime.experiment.layout import Layout, Shape
from sphinx_slime_lab.locale import Language

ROUND = 6
HEAD_LENGTH = 8
HEAD_WIDTH = 5
Attributes = Mapping[str, Any]
Mark = tuple[str, Attributes, str]
"""One SVG element: its tag, its attributes in order, its text."""


def draw(layout: Layout, uid: str, language: Language) -> str:
    """Return the whole ``svg`` element, with a title and a description under ids that no other picture has."""
    title, description = f"{uid}-picture-title", f"{uid}-picture-description"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sl-pools-{pools(layout)}" '
        f'viewBox="0 0 {layout.width} {layout.height}" '
        f'width="{layout.width * 5 // 4}" height="{layout.height * 5 // 4}" '
        f'role="img" aria-labelledby="{title} {description}">',
        f'<title id="{title}">{escape(layout.title.get(language))}</title>',
        f'<desc id="{description}">{escape(layout.description.get(language))}</desc>',
    ]
    parts += [element(mark) for shape in layout.shapes for mark in marks(shape, language)]
    return "\n".join([*parts, "</svg>\n"])


def pools(layout: Layout) -> int:
    """Return how many pools stand side by side: two need larger letters on a narrow screen."""
    return sum("pool" in shape.cls.split() for shape in layout.shapes)


def marks(shape: Shape, language: Language) -> list[Mark]:
    """Return the SVG elements of one shape."""
    if shape.shape == "text":
        return [("text", {"class": _classes(shape.cls), "x": shape.x, "y": shape.y}, _label(shape, language))]
    if shape.shape == "arrow":
        return _arrow(shape, language)
    found = [_box(shape)]
    if "shared" in shape.cls.split() and "pool" not in shape.cls.split():
        found.append(_half(shape))
    if shape.label is not None:
        at = {"class": "sl-count", "x": shape.x + shape.w // 2, "y": shape.y + shape.h // 2 + 4}
        found.append(("text", at, _label(shape, language)))
    return found


def _box(shape: Shape) -> Mark:
    attributes = {"class": _classes(shape.cls), "x": shape.x, "y": shape.y, "width": shape.w, "height": shape.h}
    if shape.shape == "round":
        attributes["rx"] = ROUND
    return ("rect", attributes, "")


def _half(shape: Shape) -> Mark:
    """Return the lower right triangle of a GPU that trains and generates in turn."""
    right, bottom = shape.x + shape.w, shape.y + shape.h
    path = f"M{right} {shape.y + ROUND}V{bottom - ROUND}Q{right} {bottom} {right - ROUND} {bottom}H{shape.x + ROUND}Z"
    return ("path", {"class": "sl-half", "d": path}, "")


def _arrow(shape: Shape, language: Language) -> list[Mark]:
    """Return line, head and label of a horizontal arrow; a negative width points left."""
    kind = _classes(shape.cls)
    end = shape.x + shape.w
    back = end - HEAD_LENGTH if shape.w > 0 else end + HEAD_LENGTH
    line = {"class": f"{kind} sl-line", "x1": shape.x, "y1": shape.y, "x2": back, "y2": shape.y}
    head = f"{end},{shape.y} {back},{shape.y - HEAD_WIDTH} {back},{shape.y + HEAD_WIDTH}"
    label = {"class": f"{kind} sl-arrow-label", "x": (shape.x + end) // 2, "y": shape.y - 8}
    return [
        ("line", line, ""),
        ("polygon", {"class": f"{kind} sl-head", "points": head}, ""),
        ("text", label, _label(shape, language)),
    ]


def _classes(names: str) -> str:
    return " ".join(f"sl-{name}" for name in names.split())


def _label(shape: Shape, language: Language) -> str:
    return "" if shape.label is None else shape.label.get(language)


def element(mark: Mark) -> str:
    """Return one mark as text."""
    tag, attributes, text = mark
    written = "".join(f' {name}="{escape(str(value))}"' for name, value in attributes.items())
    return f"<{tag}{written}>{escape(text)}</{tag}>" if text else f"<{tag}{written}/>"
