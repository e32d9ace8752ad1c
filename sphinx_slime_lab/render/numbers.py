"""Pictures of the numerical choices: bits for each element, the layers of a hybrid model, weights, expert routes."""

from __future__ import annotations

from itertools import pairwise

from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.figure import Figure

WIDTH = 440
LIMITS = {"none": None, "tis": (0.0, 2.0), "icepop": (0.5, 2.0)}
"""Lower and upper limit of the importance weight, as the shell writes them."""
SAMPLER, TRAINER = 0.1, 0.4
"""Probabilities of one token, of the sampler and of the trainer."""
_LEFT, _CELL, _MOST = 138, 9, 32


def bits(kind: str, count: int, language: Language, *, is_assumed: bool = False) -> Figure:
    """Return one bar, a cell a bit. ``is_assumed``: the format is the model's own and only drawn as ``count``."""
    name = word(language, f"bits_{kind}")
    says = word(language, "bits_follow" if is_assumed else "bits_say", what=name, bits=count)
    figure = Figure(WIDTH, 24, name, says)
    figure.text("note", 4, 16, name)
    for at in range(count):
        figure.box("train tiny" if kind == "train" else "rollout tiny", _LEFT + at * _CELL, 5, _CELL - 1, 14)
    figure.text("note", min(_LEFT + count * _CELL + 6, WIDTH - 18), 16, f"{count}{'*' if is_assumed else ''}")
    return figure


def layers(attention: int, linear: int, language: Language) -> Figure:
    """Return the layers of a hybrid model: those with a cache that grows, those with a state that does not."""
    says = word(language, "hybrid_says", attention=attention, linear=linear)
    figure = Figure(WIDTH, 64, word(language, "hybrid_title"), says)
    for row, (count, key) in enumerate(((attention, "hybrid_attention"), (linear, "hybrid_linear"))):
        y = 4 + row * 30
        figure.text("note", 4, y + 14, word(language, key, count=count))
        for at in range(count):
            figure.box("rollout tiny" if row == 0 else "host tiny", _LEFT + at * 6, y, 5, 18)
    return figure


def weight(kind: str, ratio: float) -> float:
    """Return the importance weight of a token whose trainer and sampler differ by ``ratio``."""
    limits = LIMITS[kind]
    if limits is None:
        return 1.0
    low, high = limits
    if kind == "tis":
        return min(max(ratio, low), high)
    return ratio if low <= ratio <= high else 0.0


def weights(kind: str, language: Language) -> tuple[Figure, str]:
    """Return the weight over the ratio as a line, with one token's point, and the sentence that says the same."""
    ratio = TRAINER / SAMPLER
    low, high = LIMITS[kind] or (0.0, 0.0)
    shown = {"low": f"{low:g}", "high": f"{high:g}", "q": f"{SAMPLER:g}", "p": f"{TRAINER:g}"}
    says = word(language, f"weight_{kind}", **shown, ratio=f"{ratio:g}", weight=f"{weight(kind, ratio):g}")
    figure = Figure(WIDTH, 132, word(language, "weight_title"), says)
    figure.line("axis", _x(0), _y(0), _x(5), _y(0))
    figure.line("axis", _x(0), _y(0), _x(0), _y(2.4))
    for at in range(6):
        figure.text("small", _x(at), _y(0) + 15, str(at))
    for at in (1, 2):
        figure.text("small", _x(0) - 10, _y(at) + 4, str(at))
    figure.text("small", _x(5) + 26, _y(0) + 15, "p / q")
    figure.text("small", _x(0) - 10, _y(2.4) - 4, "w")
    # One piece for each stretch on which the weight is linear; a jump lies between two pieces.
    corners = sorted({0.0, low, high, 5.0}) if LIMITS[kind] else [0.0, 5.0]
    for start, end in pairwise(corners):
        inside = (start + end) / 2
        slope = 1.0 if weight(kind, inside) == inside else 0.0
        y = weight(kind, inside) - slope * inside
        figure.line("weight", _x(start), _y(y + slope * start), _x(end), _y(y + slope * end))
    x, y_at = _x(ratio), _y(weight(kind, ratio))
    figure.line("axis guide", x, _y(0), x, y_at)
    figure.box("token", x - 4, y_at - 4, 8, 8)
    figure.text("note", x - 36, y_at - 9, f"w = {weight(kind, ratio):g}")
    return figure, says


def _x(ratio: float) -> int:
    return round(40 + ratio * 68)


def _y(value: float) -> int:
    return round(106 - value * 36)


def routes(is_replayed: bool, language: Language) -> tuple[Figure, str]:
    """Return the experts of one token on both sides, and the sentence that says the same."""
    says = word(language, "routes_same" if is_replayed else "routes_differ")
    figure = Figure(WIDTH, 78, word(language, "routes_title"), says)
    chosen = {"train": (1, 3) if is_replayed else (1, 2), "rollout": (1, 3)}
    for row, (kind, experts) in enumerate(chosen.items()):
        y = 6 + row * 38
        figure.text("note", 4, y + 19, word(language, f"routes_{kind}"))
        for at in range(1, 5):
            figure.box(kind if at in experts else "empty", _LEFT + (at - 1) * 66, y, 52, 28, f"E{at}")
    return figure, says
