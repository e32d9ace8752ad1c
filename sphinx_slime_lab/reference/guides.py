"""What the guides take from data and formulas: states of flags, figures, the memory of every recipe in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from slime.config import REGISTRY
from slime.experiment.memory import Phase
from slime.experiment.texts import nearest
from sphinx_slime_lab.figures import FIGURES
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.messages import warn
from sphinx_slime_lab.reference.base import ReferenceDirective
from sphinx_slime_lab.reference.flags import runs_today
from sphinx_slime_lab.render.tables import Cell, reference, table
from sphinx_slime_lab.workbench import Workbench, workbench_of


class StatusDirective(SphinxDirective):
    """``slime:status``: what of some flags the runtime runs today; the arguments are their names."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> Sequence[nodes.Node]:
        """Return the table; a name that is no flag is warned of and left out."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        rows: list[tuple[Cell, ...]] = []
        for name in self.arguments[0].split():
            problem = bench.unknown("flag", name)
            if problem:
                warn(problem, "reference", self.get_location())
                continue
            flag = REGISTRY[name]
            rows.append((reference("flag", name, name, self.env.docname), runs_today(bench, flag)))
        heads = [word(bench.language, key) for key in ("flag", "today")]
        return [nodes.container("", table(heads, rows, (62, 38), "status"), classes=["slime-reference"])]


class FigureDirective(SphinxDirective):
    """``slime:figure``: a drawing of formulas, and the table of its numbers."""

    required_arguments = 1

    def run(self) -> Sequence[nodes.Node]:
        """Return picture and table, or nothing after a warning about the name."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        name = self.arguments[0]
        if name not in FIGURES:
            close = nearest(name, FIGURES) or ", ".join(FIGURES)
            warn(f"there is no figure {name!r}; write {close}", "reference", self.get_location())
            return []
        drawn = FIGURES[name](bench.language)
        uid = nodes.make_id(f"figure-{name}-{self.env.new_serialno('slime-figure')}")
        widths = [100 // len(drawn.heads)] * len(drawn.heads)
        holder = nodes.container("", classes=["slime-reference"])
        holder["support_smartquotes"] = False
        holder += nodes.paragraph("", "", nodes.strong("", drawn.figure.title))
        holder += drawn.figure.node(uid)
        holder += table(drawn.heads, drawn.rows, widths, "numbers")
        return [holder]


class BudgetsDirective(ReferenceDirective):
    """``slime:budgets``: the fullest rank of each phase, a row for each recipe, from the engine of the memory panel."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table."""
        phases = {recipe: _totals(bench, recipe) for recipe in bench.facts.launch}
        labels = list(dict.fromkeys(label for found in phases.values() for label in found))
        rows: list[tuple[Cell, ...]] = []
        for recipe, found in phases.items():
            name = reference("recipe", recipe, bench.facts.launch[recipe].display, self.env.docname, literal=False)
            rows.append((name, *(found.get(label, "—") for label in labels)))
        widths = (24, *[76 // len(labels)] * len(labels))
        yield table([*self.heads(bench, "recipe"), *labels], rows, widths, "reference")


def _totals(bench: Workbench, recipe: str) -> dict[str, str]:
    """The largest total of each phase that has totals."""
    found: list[Phase] = bench.catalog.memory(bench.catalog.sanitise({"model": recipe}).state)
    return {
        phase.label.get(bench.language): max(phase.totals, key=lambda cell: cell.amount).text
        for phase in found
        if phase.totals
    }
