"""``{lab}`` and ``{recipe}``: read an experiment, check it while the page is read, return its node.

Both take the choices as YAML, inline or in a file. ``lab`` is live in the browser; ``recipe`` stands still, and takes
the id of a recipe too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.checking import Checked, Problem, check
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.messages import tell, warn
from sphinx_slime_lab.source import Source, SourceError, from_file, inline, names_file
from sphinx_slime_lab.workbench import Experiment, Workbench, workbench_of


def _words(argument: str | None) -> list[str]:
    return (argument or "").replace(",", " ").split()


class ExperimentDirective(SphinxDirective):
    """What both directives share: reading, checking, naming."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[OptionSpec] = {
        "name": directives.unchanged,
        "title": directives.unchanged,
        "expect": _words,
    }
    kind: ClassVar[str]
    interactive: ClassVar[bool] = False

    def run(self) -> Sequence[nodes.Node]:
        """Return the experiment, or its source with the messages when it cannot be used."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        try:
            source = self.read_source()
        except SourceError as error:
            warn(str(error), "file", self.get_location())
            return [nodes.paragraph("", str(error))]
        checked = check(bench, source.text, self.preset())
        problems = self.expected(checked)
        for problem in problems:
            location = source.where if problem.line is None else source.locate(problem.line)
            warn(problem.message.get(bench.language), problem.subtype, location)
        for note in checked.notes:
            location = source.where if note.line is None else source.locate(note.line)
            tell(note.message.get(bench.language), location)
        if checked.experiment is None:
            return [self.rejected(bench, source, checked.problems)]
        return self.build(bench, checked)

    def read_source(self) -> Source:
        """Return the YAML of the directive. Raises ``SourceError`` when a file cannot be read."""
        if not self.arguments:
            return inline(self)
        argument = self.arguments[0].strip()
        if self.content:
            raise SourceError(f"give either the file {argument} or choices in the directive, not both")
        return from_file(self, argument)

    def preset(self) -> dict[str, Any]:
        """Return choices that stand before those of the source."""
        return {}

    def expected(self, checked: Checked) -> list[Problem]:
        """Return the problems to report: findings named by ``:expect:`` are wanted, absent ones are not."""
        wanted = set(self.options.get("expect", ()))
        found = {problem.finding for problem in checked.problems}
        problems = [problem for problem in checked.problems if problem.finding not in wanted]
        problems += [Problem.missing(rule) for rule in sorted(wanted - found)]
        return problems

    def build(self, bench: Workbench, checked: Checked) -> Sequence[nodes.Node]:
        """Return the node of a usable experiment; ``filling`` gives it its parts while the page is written."""
        experiment = checked.experiment
        assert experiment is not None
        name = self.options.get("name", "")
        title = self.options.get("title") or self.title(bench, experiment.state)
        uid = nodes.make_id(name or self.default_name()) or f"{self.kind}-{self.env.new_serialno('slime-lab')}"
        node = ours.lab(
            "", uid=uid, name=name or uid, title=title, state=experiment.state, interactive=self.interactive
        )
        # Texts are the engine's, to the letter: no curly quotes, no dashes made of two hyphens.
        node["support_smartquotes"] = False
        self.set_source_info(node)
        self.register(node, name, uid, title)
        node["has_tour"] = "tour" in self.options
        node["docname"] = self.env.docname
        self.note_experiment(experiment, uid, title, node["ids"][-1])
        return [node]

    def title(self, bench: Workbench, state: dict[str, Any]) -> str:
        """Return the name of an experiment that has no ``:title:``."""
        return f"{word(bench.language, self.kind)}: {bench.value_label('model', state['model'])}"

    def register(self, node: nodes.Element, name: str, uid: str, title: str) -> None:
        """Give the node its id; a named one becomes a target of ``{ref}`` and of the domain's role."""
        taken = self.state.document.ids
        anchor = uid if uid not in taken else f"{self.kind}-{uid}"
        node["ids"].append(anchor)
        self.state.document.note_explicit_target(node)
        if name or self.default_name():
            slime_domain(self.env).note(self.kind, name or self.default_name(), anchor, title, self.get_location())
        if name:
            self.env.domains.standard_domain.note_hyperlink_target(name, self.env.docname, anchor, title)

    def note_experiment(self, experiment: Experiment, uid: str, title: str, anchor: str) -> None:
        """Record what ``experiments.json`` says of this one; files that errors hold back are not there."""
        files = ["experiment.json"] if experiment.errors else list(experiment.artifacts)
        slime_domain(self.env).experiments.setdefault(self.env.docname, []).append(
            {
                "kind": self.kind,
                "title": title,
                "uid": uid,
                "anchor": anchor,
                "choices": experiment.state,
                "errors": [finding.id for finding in experiment.errors],
                "files": files,
            }
        )

    def default_name(self) -> str:
        """Return the name in the domain of an experiment without ``:name:``, if it has one."""
        return ""

    def rejected(self, bench: Workbench, source: Source, problems: list[Problem]) -> nodes.Node:
        """Return the source with the messages, so that the page stays readable."""
        note = nodes.warning("", nodes.paragraph("", word(bench.language, "source_rejected")))
        items = []
        for problem in problems:
            at = "" if problem.line is None else f" ({word(bench.language, 'line', line=problem.line + 1)})"
            items.append(nodes.list_item("", nodes.paragraph("", problem.message.get(bench.language) + at)))
        note += nodes.bullet_list("", *items)
        if source.text.strip():
            note += nodes.literal_block(source.text, source.text, language="text")
        return note


class LabDirective(ExperimentDirective):
    """``lab``: one experiment, live in the browser; ``:tour:`` adds the walk through one round."""

    kind = "lab"
    interactive = True
    option_spec: ClassVar[OptionSpec] = {**ExperimentDirective.option_spec, "tour": directives.flag}


class RecipeDirective(ExperimentDirective):
    """``recipe``: one experiment that stands still; the argument may be the id of a recipe."""

    kind = "recipe"

    def read_source(self) -> Source:
        """Return the choices: of the file, or those written below the id."""
        if self.arguments and not names_file(self.arguments[0]):
            return inline(self)
        return super().read_source()

    def preset(self) -> dict[str, Any]:
        """Return the model that an id argument names."""
        if self.arguments and not names_file(self.arguments[0]):
            return {"model": self.arguments[0].strip()}
        return {}

    def default_name(self) -> str:
        """Return the id argument: ``{slime:recipe}`` links to a recipe by its id."""
        return str(self.preset().get("model", ""))
