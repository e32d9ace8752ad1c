"""Explanatory pictures with a recipe's own numbers; each stands next to a table with the same facts."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes

from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective
from sphinx_slime_lab.render import ledger, parallelism, schedules
from sphinx_slime_lab.render.install import images_body
from sphinx_slime_lab.render.memory import memory
from sphinx_slime_lab.render.parts import details
from sphinx_slime_lab.workbench import Workbench


class ParallelismDirective(ReferenceDirective):
    """Stages, ranks and the ways to split a sequence, collapsed."""

    argument_kind = "recipe"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one part that opens on demand."""
        language = bench.language
        recipe = bench.facts.launch[argument]
        split = parallelism.Split(recipe, bench.facts.models[recipe.model])
        uid = nodes.make_id(f"{argument}-parallelism")
        body: list[nodes.Node] = [
            parallelism.stages(split, language).node(f"{uid}-stages"),
            nodes.paragraph("", word(language, "par_same")),
            parallelism.ways(split, language),
        ]
        ranks = recipe.parallel.cp
        if ranks > 1:
            for kind, chunks in (("zigzag", parallelism.zigzag(ranks)), ("allgather", parallelism.allgather(ranks))):
                is_own = (kind == "allgather") == split.is_allgather
                name = word(language, f"cp_{kind}") + (word(language, "cp_this_recipe") if is_own else "")
                body.append(nodes.paragraph("", "", nodes.strong("", name)))
                body.append(nodes.paragraph("", word(language, f"cp_{kind}_says")))
                body.append(parallelism.sequence(chunks, name, language).node(f"{uid}-{kind}"))
        yield details("parallelism", word(language, "parallelism"), *body)


class MemoryDirective(ReferenceDirective):
    """Weights and optimizer state of the whole model, then every part on each rank; both collapsed."""

    argument_kind = "recipe"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield two parts that open on demand."""
        language = bench.language
        recipe = bench.facts.launch[argument]
        model = bench.facts.models[recipe.model]
        uid = nodes.make_id(f"{argument}-ledger")
        parameters = word(language, "ledger_says", name=recipe.display, billions=str(model.parameters_billion))
        yield details(
            "ledger",
            word(language, "ledger"),
            nodes.paragraph("", parameters),
            ledger.bars(recipe, model, language).node(uid),
            ledger.ledger(recipe, model, language),
            nodes.paragraph("", word(language, "ledger_limits")),
        )
        yield memory(bench, bench.catalog.sanitise({"model": argument}).state)


class ImagesDirective(ReferenceDirective):
    """The container images with the hardware of each and the command that starts it."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield what the images are for, the images, and the versions that they pin."""
        yield from images_body(bench)


class SchedulesDirective(ReferenceDirective):
    """The four schedules side by side."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield the lanes of each schedule, then the facts."""
        language = bench.language
        for schedule in schedules.SCHEDULES:
            name = word(language, f"schedule_{schedule}")
            yield nodes.paragraph("", "", nodes.strong("", name))
            yield schedules.draw(schedule, language).node(nodes.make_id(f"schedule-{schedule}"))
        yield nodes.paragraph("", word(language, "schedule_limits"))
        yield schedules.facts(language)
