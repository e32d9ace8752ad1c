"""What speculative decoding gains, over its depth."""

from __future__ import annotations

from sphinx_slime_lab import formulas
from sphinx_slime_lab.figures.base import WIDTH, Axes, Drawn, pick
from sphinx_slime_lab.locale import Language
from sphinx_slime_lab.render.figure import Figure

RATES = (0.6, 0.8, 0.9)
DRAFT = 0.1
"""Cost of one step of the draft, in steps of the target."""


def accepted(language: Language) -> Drawn:
    """Expected tokens of a verification for three acceptance rates, and the speed-up of a cheap draft."""
    title = pick(language, "每次验证得到的 token 数", "Tokens of one verification")
    says = pick(
        language,
        "接受率 0.6（青色虚线）、0.8（橙色）、0.9（蓝色）；深度继续增加，收益趋近 1 / (1 − α)。",
        "Acceptance 0.6 (teal, dashed), 0.8 (orange), 0.9 (blue); with depth the gain tends to 1 / (1 − α).",
    )
    figure = Figure(WIDTH, 168, title, says)
    axes = Axes(figure, (0, 8), (0, 6.5), bottom=140)
    axes.frame((0, 2, 4, 6, 8), (1, 2, 4, 6), "γ", "")
    for rate, cls in zip(RATES, ("samples", "kv", "weight"), strict=True):
        for depth in range(8):
            ends = [axes.at(one, formulas.accepted(rate, one)) for one in (depth, depth + 1)]
            figure.line(cls, *ends[0], *ends[1])
        axes.name("note", 8.1, formulas.accepted(rate, 8) - 0.2, f"α = {rate:g}")
    rows = [(str(depth), *(_cell(rate, depth) for rate in RATES)) for depth in (1, 2, 3, 4, 6, 8)]
    return Drawn(figure, ["γ", *(f"α = {rate:g}" for rate in RATES)], rows)


def _cell(rate: float, depth: int) -> str:
    """Tokens of a verification, and in brackets the speed-up."""
    return f"{formulas.accepted(rate, depth):.2f} (×{formulas.speculative_speedup(rate, depth, DRAFT):.2f})"
