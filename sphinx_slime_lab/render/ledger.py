"""The memory of a whole model before anything is sharded: bytes per parameter times parameters, in decimal GB."""

from __future__ import annotations

from decimal import Decimal

from docutils import nodes

from slime.experiment.facts_schema import LaunchFile, ModelFile
from sphinx_slime_lab.facts import NARROW_SPACE
from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.figure import Figure
from sphinx_slime_lab.render.tables import Cell, table

WEIGHTS, GRADIENTS, MASTER, MOMENTS = 2, 4, 4, 8
"""Bytes per parameter: BF16 weights, FP32 gradients, FP32 master weights, two FP32 moments of Adam."""
UNIT, HEIGHT, LEFT = 22, 26, 8


def size(model: ModelFile, bytes_each: int) -> str:
    """Return bytes for all parameters as text: GB = 10^9 bytes, MB below a tenth of that."""
    total = Decimal(str(model.parameters_billion)) * bytes_each
    unit, value = ("GB", total) if total >= Decimal("0.1") else ("MB", total * 1000)
    return f"{value.normalize():,f}".replace(",", NARROW_SPACE) + f" {unit}"


def ledger(recipe: LaunchFile, model: ModelFile, language: Language) -> nodes.table:
    """Return the ledger; the moments stand where the recipe's own start puts them."""
    place = word(language, "ledger_host" if recipe.defaults.cpuAdam else "ledger_gpu")
    rows: list[tuple[Cell, ...]] = [
        (word(language, "ledger_weights"), f"{WEIGHTS} P", size(model, WEIGHTS), word(language, "ledger_gpu")),
        (word(language, "ledger_moments"), f"{MOMENTS} P", size(model, MOMENTS), place),
        (
            word(language, "ledger_all"),
            f"{WEIGHTS + GRADIENTS + MASTER + MOMENTS} P",
            size(model, WEIGHTS + GRADIENTS + MASTER + MOMENTS),
            "—",
        ),
    ]
    heads = [word(language, key) for key in ("ledger_part", "ledger_formula", "ledger_size", "ledger_place")]
    return table(heads, rows, (46, 14, 20, 20), "ledger")


def bars(recipe: LaunchFile, model: ModelFile, language: Language) -> Figure:
    """Draw the four parts as wide as their bytes."""
    parts = (("ledger_w", WEIGHTS), ("ledger_g", GRADIENTS), ("ledger_m", MASTER), ("ledger_v", MOMENTS))
    total = sum(each for _, each in parts)
    figure = Figure(
        2 * LEFT + total * UNIT,
        HEIGHT + 40,
        word(language, "ledger_title", name=recipe.display),
        ", ".join(f"{word(language, key)} {size(model, each)}" for key, each in parts),
    )
    x = LEFT
    for key, each in parts:
        is_host = key == "ledger_v" and recipe.defaults.cpuAdam
        figure.box("host" if is_host else "train", x, 8, each * UNIT, HEIGHT, f"{each} P")
        figure.text("small", x + each * UNIT // 2, HEIGHT + 24, word(language, key))
        x += each * UNIT
    return figure
