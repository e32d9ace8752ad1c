"""Roles that write facts into prose, so that no number and no state of the runtime is typed by hand."""

from __future__ import annotations

from docutils import nodes
from docutils.nodes import Node, system_message
from sphinx.util.docutils import SphinxRole

from slime.config import REGISTRY
from sphinx_slime_lab.calculation import CalculationError, Sources, calculate
from sphinx_slime_lab.facts import FactPathError, look_up, show
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.messages import warn
from sphinx_slime_lab.reference.flags import runs_today
from sphinx_slime_lab.workbench import Workbench, workbench_of


class DataRole(SphinxRole):
    """What the roles share: the text is looked up while the page is read; what has no answer stays visible."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        """Return the answer as text, or the text as code after a warning."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        asked = self.text.strip()
        try:
            shown = self.answer(bench, asked)
        except (FactPathError, CalculationError) as error:
            warn(str(error), "reference", self.get_location())
            return [nodes.literal(self.rawtext, asked)], []
        return [nodes.inline(self.rawtext, shown, classes=["slime-fact"])], []

    def answer(self, bench: Workbench, asked: str) -> str:
        """Return what stands on the page. Raises ``FactPathError`` or ``CalculationError``."""
        raise NotImplementedError


class FactRole(DataRole):
    """``slime:fact``: the value of a dotted path, such as ``glm-4.7.parallel.tp``."""

    def answer(self, bench: Workbench, asked: str) -> str:
        """Return the fact."""
        return show(look_up(bench.facts, asked), word(bench.language, "yes_"), word(bench.language, "no_"))


class CalcRole(DataRole):
    """``slime:calc``: the result of a formula, see ``sphinx_slime_lab.calculation``."""

    def answer(self, bench: Workbench, asked: str) -> str:
        """Return the result."""
        results = bench.repository / "bench/results"
        for path in results.glob("*.json"):
            self.env.note_dependency(str(path))
        return calculate(Sources(bench.facts, results), asked)


class StateRole(DataRole):
    """``slime:state``: whether the runtime runs a flag today, from its registry."""

    def answer(self, bench: Workbench, asked: str) -> str:
        """Return the state in words."""
        problem = bench.unknown("flag", asked)
        if problem:
            raise FactPathError(problem)
        return runs_today(bench, REGISTRY[asked])
