"""Bytes of weights, gradients and optimizer state on each rank."""

from __future__ import annotations

from sphinx_slime_lab import formulas
from sphinx_slime_lab.figures.base import WIDTH, Drawn, pick
from sphinx_slime_lab.locale import Language
from sphinx_slime_lab.render.figure import Figure

RANKS = 8


def zero(language: Language) -> Drawn:
    """ZeRO 0 to 3 on eight data-parallel ranks; 1 is Megatron's distributed optimizer."""
    title = pick(
        language, "八个数据并行 rank 上，每个参数占多少字节", "Bytes a parameter on each of eight data-parallel ranks"
    )
    says = pick(
        language,
        "每行从左到右是权重、梯度、主权重与 Adam 状态。ZeRO-1 即 Megatron 的分布式优化器。",
        "Each row: weights, gradients, master weights with Adam's moments. ZeRO-1 is Megatron's distributed optimizer.",
    )
    figure = Figure(WIDTH, 4 * 32 + 10, title, says)
    unit = 19
    rows = []
    for stage in range(4):
        figure.text("note", 4, 6 + stage * 32 + 16, f"ZeRO-{stage}")
    for stage in range(4):
        y = 6 + stage * 32
        parts = [
            formulas.WEIGHTS / (RANKS if stage > 2 else 1),
            formulas.GRADIENTS / (RANKS if stage > 1 else 1),
            (formulas.MASTER + formulas.MOMENTS) / (RANKS if stage > 0 else 1),
        ]
        x = 62
        for part, kind in zip(parts, ("train", "samples", "host"), strict=True):
            width = round(part * unit)
            figure.box(f"{kind} tiny", x, y, width, 24, f"{part:g}" if width > 22 else "")
            x += width + 1
        shares = (formulas.zero_bytes(stage, ranks) for ranks in (1, 2, RANKS, 64))
        rows.append((f"ZeRO-{stage}", *(f"{one:.4g}" for one in shares)))
    heads = ["", *(pick(language, f"{one} 个 rank", f"{one} ranks") for one in (1, 2, RANKS, 64))]
    return Drawn(figure, heads, rows)
