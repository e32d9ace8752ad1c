"""Roles that write facts into prose, so that no number of a page is typed by hand."""

from __future__ import annotations

from docutils import nodes
from docutils.nodes import Node, system_message
from sphinx.util.docutils import SphinxRole

from sphinx_slime_lab.facts import FactPathError, look_up, show
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.messages import warn
from sphinx_slime_lab.workbench import workbench_of


class FactRole(SphinxRole):
    """``slime:fact``: the value of a dotted path, such as ``glm-4.7.parallel.tp``."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        """Return the value as text; an unknown path is warned of and stays visible."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        path = self.text.strip()
        try:
            value = look_up(bench.facts, path)
        except FactPathError as error:
            warn(str(error), "reference", self.get_location())
            return [nodes.literal(self.rawtext, path)], []
        shown = show(value, word(bench.language, "yes_"), word(bench.language, "no_"))
        return [nodes.inline(self.rawtext, shown, classes=["slime-fact"])], []
