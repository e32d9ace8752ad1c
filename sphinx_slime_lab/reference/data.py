"""The list of the JSON files that stand next to the pages."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective
from sphinx_slime_lab.twins import TWINS
from sphinx_slime_lab.workbench import Workbench


class DataDirective(ReferenceDirective):
    """Every kind of file with its meaning; those of one recipe are listed in ``recipes.json``."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one list of links."""
        items = []
        for name, key in TWINS.items():
            said = nodes.paragraph("", word(bench.language, key))
            link = nodes.literal("", name) if "<" in name else ours.lab_data("", "", nodes.literal("", name), path=name)
            items.append(nodes.definition_list_item("", nodes.term("", "", link), nodes.definition("", said)))
        yield nodes.definition_list("", *items)
