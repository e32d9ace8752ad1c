"""The estimate of memory as collapsed tables: a phase each, its kinds of rank as columns, a total below.

The twin in the browser is ``js/src/ui/memory.js``, which writes the same tables anew when an edit changes them.
"""

from __future__ import annotations

from docutils import nodes

from slime.experiment.memory import Cell as Amount
from slime.experiment.memory import Phase, Row
from slime.experiment.tables import State
from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.parts import details
from sphinx_slime_lab.render.tables import Cell, table
from sphinx_slime_lab.workbench import Workbench


def memory(bench: Workbench, state: State) -> ours.lab_details:
    """Return the collapsed panel of one experiment."""
    language = bench.language
    phases = bench.catalog.memory(state)
    return details(
        "memory",
        word(language, "memory"),
        nodes.paragraph("", word(language, "memory_says")),
        ours.lab_block("", *[node for phase in phases for node in _phase(phase, language)], kind="memory-phases"),
        nodes.paragraph("", word(language, "memory_checked")),
    )


def _phase(phase: Phase, language: Language) -> list[nodes.Node]:
    title = nodes.paragraph(
        "", "", nodes.strong("", phase.label.get(language)), nodes.Text(f" {phase.what.get(language)}")
    )
    heads = [word(language, "memory_part"), *(rank.get(language) for rank in phase.ranks)]
    rows: list[list[Cell]] = [[_part(row, language), *map(_amount, row.cells)] for row in phase.rows]
    if phase.totals is not None:
        total = [nodes.strong("", word(language, "memory_total"))]
        rows.append([total, *[[nodes.strong("", cell.text)] for cell in phase.totals]])
    share = 45 // len(phase.ranks)
    return [title, table(heads, rows, [55, *[share] * len(phase.ranks)], "memory")]


def _part(row: Row, language: Language) -> list[nodes.Node]:
    """The name of a term, then how it comes about and where that is explained."""
    formula = word(language, "semicolon").join(one.get(language) for one in row.formulas)
    return [
        nodes.Text(row.label.get(language)),
        nodes.inline("", f" {formula} ", classes=["slime-lab__formula"]),
        nodes.reference("", word(language, "memory_source"), refuri=row.link, classes=["external"]),
    ]


def _amount(cell: Amount | None) -> str:
    return "—" if cell is None else cell.text
