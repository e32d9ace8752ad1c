"""The estimate of memory as lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from slime.experiment.memory import Phase
from slime.experiment.texts import Text

PLANNING = Text(
    "供规划用，不是承诺：分配器、CUDA 上下文、CUDA graph、通信库与碎片另计，没有在 GPU 上测量。",
    "For planning, not a promise: allocators, CUDA contexts, CUDA graphs, communication libraries and fragmentation "
    "come on top, and nothing was measured on a GPU.",
)
TOTAL = Text("合计", "total")
NONE = "-"


def memory_lines(phases: Sequence[Phase], language: str) -> list[str]:
    """One block for each phase: its kinds of rank, then a line for each term with its size on each of them."""
    colon, between = ("：", "；") if language == "zh" else (": ", "; ")
    lines = [PLANNING.get(language)]
    for phase in phases:
        ranks = " | ".join(rank.get(language) for rank in phase.ranks)
        what = f"（{phase.what.zh}）" if language == "zh" else f" ({phase.what.en})"
        lines += ["", f"{phase.label.get(language)}{what}{colon}{ranks}"]
        for row in phase.rows:
            sizes = " | ".join(NONE if cell is None else cell.text for cell in row.cells)
            formulas = between.join(one.get(language) for one in row.formulas)
            lines.append(f"  {row.label.get(language)}{colon}{sizes}  [{formulas}]")
        if phase.totals is not None:
            lines.append(f"  {TOTAL.get(language)}{colon}{' | '.join(cell.text for cell in phase.totals)}")
    return lines
