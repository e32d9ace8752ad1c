"""``slime:cost``: what a recipe asks for, in one table, from the same engine as the panel of memory."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes

from slime.experiment.memory import Phase
from sphinx_slime_lab.facts import show
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective
from sphinx_slime_lab.render.tables import Cell, table
from sphinx_slime_lab.workbench import Workbench


class CostDirective(ReferenceDirective):
    """Devices, the fullest rank of each phase, host memory, checkpoints and the samples of a run."""

    argument_kind = "recipe"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table of two columns."""
        language = bench.language
        state = bench.catalog.sanitise({"model": argument}).state
        phases = {phase.id: phase for phase in bench.catalog.memory(state)}
        gpus = bench.catalog.validate(state).accounting.ray_gpus
        recipe = bench.facts.launch[argument]
        answers = recipe.batch.prompts * recipe.batch.samples
        tokens = answers * recipe.defaults.response
        devices = word(language, "cost_cpu") if recipe.device == "cpu" else show(gpus)
        rows: list[tuple[Cell, ...]] = [
            (word(language, "cost_devices"), devices),
            *((phase.label.get(language), _fullest(phase)) for phase in phases.values() if phase.totals),
            (word(language, "cost_checkpoint"), _checkpoint(phases["disk"])),
            (
                word(language, "cost_answers"),
                word(language, "cost_answers_of", answers=show(answers), tokens=show(tokens)),
            ),
            (word(language, "cost_rounds"), show(recipe.defaults.rounds)),
        ]
        yield table(self.heads(bench, "cost_what", "cost_needs"), rows, (55, 45), "reference")


def _fullest(phase: Phase) -> str:
    """The total of the rank that needs most."""
    return max(phase.totals or [], key=lambda cell: cell.amount).text


def _checkpoint(phase: Phase) -> str:
    """The size of one training checkpoint."""
    (row,) = [row for row in phase.rows if row.id == "checkpoint"]
    return next(cell.text for cell in row.cells if cell is not None)
