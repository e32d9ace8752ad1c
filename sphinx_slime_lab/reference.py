"""Reference tables generated from the data: choices, rules, flags, and the facts of a recipe.

    {slime:choices}                 every choice, a table for each step
    {slime:rules} error             the rules of one severity (error, note, planned), or all
    {slime:flags}                   the runtime's flags, a table for each group
    {slime:facts} glm-4.7           dimensions, layout and training numbers of one recipe
    {slime:deviations} glm-4.7      values that depart from the source, each with its reason
    {slime:sources} glm-4.7         where the numbers come from
    {slime:recipes}                 all recipes in one table

Each row of the first three is a target of the role of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from slime.config import GROUP_TITLES, REGISTRY, Flag
from slime.experiment.facts_schema import LaunchFile, Source
from slime.experiment.messages import MESSAGES
from slime.experiment.schema import ChoiceField, Rule
from slime.experiment.texts import nearest
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.facts import fact_table, meaning, show
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.messages import warn
from sphinx_slime_lab.render.tables import Cell, code, reference, separated, table
from sphinx_slime_lab.workbench import Workbench, workbench_of


class ReferenceDirective(SphinxDirective):
    """What the tables share."""

    has_content = False
    optional_arguments = 1
    classes: ClassVar[tuple[str, ...]] = ()
    argument_kind: ClassVar[str] = ""
    """What the argument is: empty, ``severity`` or ``recipe``."""

    def run(self) -> Sequence[nodes.Node]:
        """Return the table, or nothing after a warning about the argument."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        argument = self.arguments[0].strip() if self.arguments else ""
        known = {"": (), "severity": ("error", "note", "planned"), "recipe": tuple(bench.facts.launch)}[
            self.argument_kind
        ]
        if (argument or self.argument_kind == "recipe") and argument not in known:
            close = nearest(argument, known) or ", ".join(known) or "no argument"
            warn(f"{self.name}: {argument!r} is not known here; write {close}", "reference", self.get_location())
            return []
        holder = nodes.container("", *self.tables(bench, argument), classes=["slime-reference", *self.classes])
        holder["support_smartquotes"] = False
        return [holder]

    def tables(self, bench: Workbench, argument: str) -> Iterable[nodes.Node]:
        """Yield the nodes of this kind of table."""
        raise NotImplementedError

    def heads(self, bench: Workbench, *keys: str) -> list[str]:
        """Return header texts by their words."""
        return [word(bench.language, key) for key in keys]

    def target(self, kind: str, name: str, title: str) -> nodes.Node:
        """Return the name as code, with the anchor that the role of ``kind`` links to."""
        anchor = nodes.make_id(f"{kind}-{name}")
        slime_domain(self.env).note(kind, name, anchor, title, self.get_location())
        node = nodes.literal("", name, ids=[anchor])
        self.state.document.note_explicit_target(node)
        return node


class ChoicesDirective(ReferenceDirective):
    """Every choice with its values, default and meaning."""

    classes = ("slime-reference--wide",)

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one captioned table for each step."""
        for step in bench.tables.steps:
            rows = [self._row(bench, choice) for choice in bench.tables.fields if choice.step == step.id]
            yield nodes.paragraph("", "", nodes.strong("", bench.text(step.label)))
            yield table(
                self.heads(bench, "key", "choice", "accepts", "default", "meaning"),
                rows,
                (18, 18, 24, 14, 26),
                "reference",
            )

    def _row(self, bench: Workbench, choice: ChoiceField) -> list[Cell]:
        label = bench.text(choice.label)
        default = bench.defaults[choice.name]
        shown: Cell = (
            code(str(default).lower() if isinstance(default, bool) else str(default)) if default != "" else "—"
        )
        return [
            self.target("field", choice.name, label),
            label,
            _accepted(bench, choice),
            shown,
            bench.text(choice.help),
        ]


def _accepted(bench: Workbench, choice: ChoiceField) -> Cell:
    if choice.type == "enum":
        return separated([code(value.value) for value in choice.values])
    if choice.type == "bool":
        return separated([code("true"), code("false")])
    if choice.type == "int":
        return word(bench.language, "limits", minimum=show(choice.minimum), maximum=show(choice.maximum))
    return word(bench.language, "any_text")


class RulesDirective(ReferenceDirective):
    """Every rule with its condition and sentence."""

    classes = ("slime-reference--wide",)
    argument_kind = "severity"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table."""
        rules = [rule for rule in bench.tables.rules if argument in ("", rule.severity)]
        rows = [self._row(bench, rule) for rule in rules]
        if argument in ("", "planned"):
            rows.append(self._planned(bench))
        yield table(
            self.heads(bench, "rule", "severity", "says", "condition", "field_names"),
            rows,
            (9, 10, 38, 28, 15),
            "reference",
        )

    def _planned(self, bench: Workbench) -> list[Cell]:
        """R01 stands in no table of rules: the engine computes it from the registry of flags."""
        says = bench.text(MESSAGES["R01"])
        return [self.target("rule", "R01", says), word(bench.language, "severity_planned"), says, "—", "—"]

    def _row(self, bench: Workbench, rule: Rule) -> list[Cell]:
        says = bench.text(rule.message)
        fields = [reference("field", name, name, self.env.docname) for name in rule.each or rule.fields_]
        severity = word(bench.language, f"severity_{rule.severity}")
        return [self.target("rule", rule.id, says), severity, says, code(rule.when.text), separated(fields)]


class FlagsDirective(ReferenceDirective):
    """The runtime's registry, and what of it runs today."""

    classes = ("slime-reference--wide",)

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one captioned table for each group of flags."""
        for group, flags in REGISTRY.groups().items():
            title = GROUP_TITLES[group][bench.language] if group in GROUP_TITLES else group
            rows = [self._row(bench, flag) for flag in flags]
            yield nodes.paragraph("", "", nodes.strong("", title))
            yield table(self.heads(bench, "flag", "default", "runs", "meaning"), rows, (30, 14, 16, 40), "reference")

    def _row(self, bench: Workbench, flag: Flag) -> list[Cell]:
        default: Cell = "—" if flag.default is None or flag.default == "" else code(_plain(flag.default))
        return [
            self.target("flag", flag.name, flag.help[bench.language]),
            default,
            _runs(bench, flag),
            flag.help[bench.language],
        ]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _runs(bench: Workbench, flag: Flag) -> str:
    if not flag.runs:
        return word(bench.language, "runs_no")
    if flag.only is None:
        return word(bench.language, "runs_yes")
    return word(bench.language, "runs_only", values=", ".join(flag.only))


class FactsDirective(ReferenceDirective):
    """The facts of one recipe, as its launch and model files state them."""

    argument_kind = "recipe"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table; what the recipe does not have is left out."""
        facts = fact_table(bench.facts, argument)
        yes, no = word(bench.language, "yes_"), word(bench.language, "no_")
        keys = [key for key, value in facts.items() if value is not None and not meaning(key)]
        rows = [(code(key), show(facts[key], yes, no)) for key in keys]
        yield table(self.heads(bench, "fact", "value"), rows, (45, 55), "facts")


class DeviationsDirective(ReferenceDirective):
    """Values of a recipe that depart from its source, with the reason."""

    argument_kind = "recipe"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table, or nothing for a recipe without a deviation."""
        recipe = bench.facts.launch[argument]
        if not recipe.deviations:
            return
        facts = fact_table(bench.facts, argument)
        extras = {extra.flag: extra.value or "" for extra in (*recipe.training_flags, *recipe.serving_flags)}
        rows = [
            (
                code(one.key),
                show(one.source_value),
                show(extras.get(one.key, facts.get(one.key))),
                bench.text(one.reason),
            )
            for one in recipe.deviations
        ]
        yield table(
            self.heads(bench, "key", "source_value", "our_value", "reason"), rows, (26, 22, 14, 38), "deviations"
        )


class SourcesDirective(ReferenceDirective):
    """Where the numbers of a recipe come from."""

    argument_kind = "recipe"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield a list of links, each with its file and commit."""
        recipe = bench.facts.launch[argument]
        sources = dict.fromkeys((*recipe.sources, *bench.facts.models[recipe.model].sources))
        yield nodes.bullet_list("", *[nodes.list_item("", _source(one)) for one in sources])


def _source(source: Source) -> nodes.paragraph:
    link = nodes.reference("", source.title, refuri=source.url)
    paragraph = nodes.paragraph("", "", link)
    if source.path:
        paragraph += [nodes.Text(" "), code(source.path)]
    if source.commit:
        paragraph += [nodes.Text(" @ "), code(source.commit[:8])]
    return paragraph


class RecipesDirective(ReferenceDirective):
    """All recipes, one row each."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table."""
        rows = [self._row(recipe) for recipe in bench.facts.launch.values()]
        header = [*self.heads(bench, "recipe"), "", "GPU", "TP / PP / CP / EP", *self.heads(bench, "engine_gpus")]
        yield table(header, rows, (22, 26, 12, 22, 18), "reference")

    def _row(self, recipe: LaunchFile) -> list[Cell]:
        parallel = recipe.parallel
        name = reference("recipe", recipe.id, recipe.display, self.env.docname, literal=False)
        gpus = "CPU" if recipe.device == "cpu" else f"{recipe.nodes} × {recipe.gpus_per_node}"
        return [
            name,
            recipe.size,
            gpus,
            f"{parallel.tp} / {parallel.pp} / {parallel.cp} / {parallel.ep}",
            str(recipe.engine.gpus),
        ]


DIRECTIVES: dict[str, type[ReferenceDirective]] = {
    "choices": ChoicesDirective,
    "rules": RulesDirective,
    "flags": FlagsDirective,
    "facts": FactsDirective,
    "deviations": DeviationsDirective,
    "sources": SourcesDirective,
    "recipes": RecipesDirective,
}
