"""How one recipe splits a model over its GPUs: the stages with their ranks, and the two ways to split a sequence.

All numbers are the recipe's own. The share of attention work is counted, for full causal attention: cut into ``2 CP``
chunks, chunk ``c`` attends to itself and to the ``c`` chunks before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from docutils import nodes

from slime.experiment.facts_schema import LaunchFile, ModelFile
from sphinx_slime_lab.facts import show
from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.figure import Figure
from sphinx_slime_lab.render.tables import Cell, table

ALLGATHER = "--allgather-cp"
CELL, GAP, PAD, LINE = 14, 3, 8, 18
NARROWEST, WIDEST = 330, 420
"""Panels that would pass the widest go to the next row, so that narrow screens can still read them; no picture is
narrower than its longest line of text."""


@dataclass(frozen=True)
class Split:
    """The ways of one recipe."""

    recipe: LaunchFile
    model: ModelFile

    @property
    def stage_layers(self) -> list[int]:
        """Layers of each pipeline stage; the recipe's check made sure that they add up."""
        parallel, layers = self.recipe.parallel, self.model.layers
        first, last = parallel.first_stage_layers, parallel.last_stage_layers
        named = [one for one in (first, last) if one is not None]
        rest = parallel.pp - len(named)
        each = (layers - sum(named)) // rest if rest else 0
        return [*([first] if first is not None else []), *[each] * rest, *([last] if last is not None else [])]

    @property
    def gpus(self) -> int:
        """GPUs that train."""
        return self.recipe.nodes * self.recipe.gpus_per_node

    @property
    def copies(self) -> int:
        """Data parallelism: copies of the model."""
        parallel = self.recipe.parallel
        return self.gpus // (parallel.tp * parallel.pp * parallel.cp)

    @property
    def is_allgather(self) -> bool:
        """Whether context parallelism gives each rank neighbouring tokens."""
        return any(extra.flag == ALLGATHER for extra in self.recipe.training_flags)


def zigzag(ranks: int) -> list[list[int]]:
    """Chunks of each rank: one from the front, one from the back, so that all ranks have equal work."""
    return [[rank, 2 * ranks - 1 - rank] for rank in range(ranks)]


def allgather(ranks: int) -> list[list[int]]:
    """Chunks of each rank: two neighbours."""
    return [[2 * rank, 2 * rank + 1] for rank in range(ranks)]


def work_shares(chunks: list[list[int]]) -> list[str]:
    """Share of the causal attention of each rank, as ``12.5%``; chunk ``c`` has ``2 c + 1`` half chunk pairs."""
    work = [sum(2 * chunk + 1 for chunk in own) for own in chunks]
    return [f"{100 * one / sum(work):.1f}".removesuffix(".0") + "%" for one in work]


def stages(split: Split, language: Language) -> Figure:
    """Draw one copy of the model: a panel for each pipeline stage, TP to the right, CP downwards."""
    parallel = split.recipe.parallel
    width = max(parallel.tp * (CELL + GAP) - GAP, 84)
    height = LINE + parallel.cp * (CELL + GAP)
    columns = min(parallel.pp, max(1, (WIDEST - PAD) // (width + 3 * PAD)))
    rows = -(-parallel.pp // columns)
    title = word(language, "par_title", name=split.recipe.display)
    figure = Figure(
        max(PAD + columns * (width + 3 * PAD), NARROWEST),
        PAD + rows * (height + 2 * PAD) + LINE,
        title,
        word(
            language, "par_says", tp=parallel.tp, pp=parallel.pp, cp=parallel.cp, copies=split.copies, gpus=split.gpus
        ),
    )
    first = 1
    for stage, layers in enumerate(split.stage_layers):
        x = PAD + stage % columns * (width + 3 * PAD)
        y = PAD + stage // columns * (height + 2 * PAD)
        figure.text("note", x, y + LINE - 6, word(language, "par_layers", first=first, last=first + layers - 1))
        for rank in range(parallel.tp * parallel.cp):
            left = x + rank % parallel.tp * (CELL + GAP)
            figure.box("train", left, y + LINE + rank // parallel.tp * (CELL + GAP), CELL, CELL)
        first += layers
    axes = word(language, "par_axes", tp=parallel.tp, cp=parallel.cp, pp=parallel.pp)
    figure.text("note", PAD, figure.height - 6, axes)
    return figure


def sequence(chunks: list[list[int]], name: str, language: Language) -> Figure:
    """Draw which chunks of a sequence each CP rank holds, with its share of the attention work."""
    ranks = len(chunks)
    count, shares = 2 * ranks, work_shares(chunks)
    left = 56
    figure = Figure(
        max(left + count * (CELL + GAP) + 60, NARROWEST),
        PAD + ranks * (CELL + GAP) + LINE,
        name,
        word(language, "cp_says", shares=", ".join(shares)),
    )
    for rank, own in enumerate(chunks):
        y = PAD + rank * (CELL + GAP)
        figure.text("note", 4, y + CELL - 3, word(language, "cp_rank", rank=rank))
        for chunk in range(count):
            cls, label = ("train tiny", str(chunk)) if chunk in own else ("empty", "")
            figure.box(cls, left + chunk * (CELL + GAP), y, CELL, CELL, label)
        figure.text("note", left + count * (CELL + GAP) + 8, y + CELL - 3, shares[rank])
    figure.text("note", left, figure.height - 5, word(language, "cp_axis"))
    return figure


def ways(split: Split, language: Language) -> nodes.table:
    """Return what each way splits, with the recipe's numbers."""
    parallel, model = split.recipe.parallel, split.model
    layers = " + ".join(map(str, split.stage_layers))
    tokens = split.recipe.max_tokens_per_gpu
    rows: list[tuple[Cell, Cell, Cell]] = [
        (f"TP {parallel.tp}", word(language, "splits_tp"), word(language, "has_tp", n=parallel.tp)),
        (f"PP {parallel.pp}", word(language, "splits_pp"), word(language, "has_pp", layers=layers)),
        (f"CP {parallel.cp}", word(language, "splits_cp"), _cp_words(split, language, tokens)),
    ]
    if model.moe is not None:
        each = model.moe.experts // parallel.ep
        has = word(language, "has_ep", experts=model.moe.experts, ep=parallel.ep, each=each)
        rows.append((f"EP {parallel.ep}", word(language, "splits_ep"), has))
    rows.append((f"DP {split.copies}", word(language, "splits_dp"), word(language, "has_dp", n=split.copies)))
    shards = split.copies * parallel.cp
    rows.append(("ZeRO", word(language, "splits_zero"), word(language, "has_zero", n=shards)))
    heads = [word(language, key) for key in ("way", "splits", "here")]
    return table(heads, rows, (12, 40, 48), "parallelism")


def _cp_words(split: Split, language: Language, tokens: int) -> str:
    parallel = split.recipe.parallel
    if parallel.cp == 1:
        return word(language, "has_cp_one", tokens=show(tokens))
    kind = "allgather" if split.is_allgather else "zigzag"
    return word(language, "has_cp", kind=kind, tokens=show(tokens * parallel.cp))
