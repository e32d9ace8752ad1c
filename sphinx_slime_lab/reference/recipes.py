"""Tables about recipes: their facts, where they depart from their sources, the sources, and all of them in one."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes

from slime.experiment.facts_schema import LaunchFile, Source
from sphinx_slime_lab.facts import fact_table, meaning, show
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective
from sphinx_slime_lab.render.tables import Cell, code, reference, table
from sphinx_slime_lab.workbench import Workbench


class FactsDirective(ReferenceDirective):
    """The facts of one recipe, as its launch and model files state them."""

    argument_kind = "recipe"
    twin = "recipes/{argument}.json"

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

    twin = "recipes.json"

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
