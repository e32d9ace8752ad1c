"""A pipeline's schedule, block by block, and the share of it that idles."""

from __future__ import annotations

from sphinx_slime_lab import formulas
from sphinx_slime_lab.figures.base import WIDTH, Drawn, pick
from sphinx_slime_lab.locale import Language
from sphinx_slime_lab.render.figure import Figure

STAGES, MICRO_BATCHES = 4, 8
_UNIT, _LEFT, _HIGH, _LANE = 12, 30, 22, 28


def bubble(language: Language) -> Drawn:
    """1F1B on four stages with eight micro-batches; a backward pass takes as long as two forward passes."""
    share = formulas.bubble(STAGES, MICRO_BATCHES)
    title = pick(language, "四段流水线、八个 micro-batch 的 1F1B", "1F1B on four stages with eight micro-batches")
    says = pick(
        language,
        f"蓝色为前向，橙色为反向，空白为气泡，占 {share:.1%}。数字是 micro-batch。",
        f"Blue is forward, orange backward, empty is the bubble: {share:.1%} of the time. Numbers are micro-batches.",
    )
    figure = Figure(WIDTH, STAGES * _LANE + 12, title, says)
    for stage, blocks in enumerate(formulas.schedule(STAGES, MICRO_BATCHES)):
        y = 6 + stage * _LANE
        figure.text("note", 4, y + 15, f"P{stage}")
        for start, end, kind, at in blocks:
            label = "train tiny" if kind == "F" else "rollout tiny"
            figure.box(label, _LEFT + start * _UNIT, y, (end - start) * _UNIT - 1, _HIGH, str(at))
    counts = (1, 2, 4, 8, 16, 32, 64)
    rows = [(str(stages), *(f"{formulas.bubble(stages, one):.1%}" for one in counts)) for stages in (2, 4, 8, 16)]
    return Drawn(figure, [pick(language, "段数 p", "stages p"), *(f"m = {one}" for one in counts)], rows)
