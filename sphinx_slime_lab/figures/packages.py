"""Who imports whom, read from the source of the installed package."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path

from sphinx_slime_lab.figures.base import WIDTH, Drawn, pick
from sphinx_slime_lab.locale import Language
from sphinx_slime_lab.render.figure import Figure

ORDER = (
    "rewards", "algorithms", "data", "config", "experiment", "observability", "rollout", "sglang", "megatron",
    "weights", "cluster", "train",
)  # fmt: skip
"""From what imports nothing of the others to what joins everything."""
_SIDE = 24


@cache
def imports() -> dict[tuple[str, str], int]:
    """Return how many modules of one package import from another: ``(importer, imported) -> modules``."""
    root = Path(str(files("slime")))
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(root.rglob("*.py")):
        part = path.relative_to(root).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        others = {name.split(".")[1] for name in modules if name.startswith("slime.")}
        found.update((part, other) for other in others if other != part)
    return dict(found)


def packages(language: Language) -> Drawn:
    """A square for each pair: a row's package imports a column's."""
    title = pick(language, "谁导入谁", "Who imports whom")
    says = pick(
        language,
        "每行的包导入有方块的列；数字是有多少个模块这样做。",
        "A row's package imports the columns with a square; the number counts the modules that do.",
    )
    found = imports()
    figure = Figure(WIDTH, len(ORDER) * _SIDE + 34, title, says)
    for column in range(len(ORDER)):
        figure.text("small", 130 + column * _SIDE + _SIDE // 2, 16, str(column + 1))
    for row, importer in enumerate(ORDER):
        figure.text("note", 4, 24 + row * _SIDE + 15, f"{row + 1} {importer}")
    for row, importer in enumerate(ORDER):
        y = 24 + row * _SIDE
        for column, imported in enumerate(ORDER):
            count = found.get((importer, imported), 0)
            kind = "train tiny" if count else ("host tiny" if row == column else "empty tiny")
            figure.box(kind, 130 + column * _SIDE, y, _SIDE - 2, _SIDE - 2, str(count) if count else "")
    rows = [
        (importer, ", ".join(f"{one} ({found[importer, one]})" for one in ORDER if (importer, one) in found) or "—")
        for importer in ORDER
    ]
    return Drawn(figure, [pick(language, "包", "package"), pick(language, "导入（模块数）", "imports (modules)")], rows)
