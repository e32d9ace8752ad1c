"""Reference pages generated from the data: choices, rules, flags, recipes, and the data themselves.

    {slime:choices}                 every choice: values, limits, default, flags, sharing
    {slime:rules} error             the rules of one severity (error, note, planned), or all
    {slime:coverage}                the known failures, and which rules find each
    {slime:flags}                   the runtime's flags, a table for each group
    {slime:facts} glm-4.7           dimensions, layout and training numbers of one recipe
    {slime:deviations} glm-4.7      values that depart from the source, each with its reason
    {slime:sources} glm-4.7         where the numbers come from
    {slime:recipes}                 all recipes in one table
    {slime:parallelism} glm-4.7     how the recipe splits the model over GPUs, collapsed
    {slime:memory} glm-4.7          weights and optimizer state before sharding, then each rank, collapsed
    {slime:images}                  container images and the hardware of each
    {slime:schedules}               the four schedules as lanes
    {slime:preflight}               every rule of `slime check`: reason, source, level, what it says
    {slime:status} --flag --flag    what of these flags the runtime runs today
    {slime:figure} bubble           a drawing of formulas with the table of its numbers
    {slime:budgets}                 the fullest rank of each phase, for every recipe
    {slime:cost} glm-4.7            GPUs, memory, checkpoint and samples of one recipe in one table
    {slime:api} slime.rollout.filters.DynamicFilterOutput    classes and functions to import, from their source
    {slime:data}                    the same data as JSON files next to the pages

Each entry of the first three is a target of the role of its kind.
"""

from __future__ import annotations

from sphinx.util.docutils import SphinxDirective

from sphinx_slime_lab.reference.api import ApiDirective
from sphinx_slime_lab.reference.choices import ChoicesDirective
from sphinx_slime_lab.reference.cost import CostDirective
from sphinx_slime_lab.reference.data import DataDirective
from sphinx_slime_lab.reference.flags import FlagsDirective
from sphinx_slime_lab.reference.guides import BudgetsDirective, FigureDirective, StatusDirective
from sphinx_slime_lab.reference.pictures import (
    ImagesDirective,
    MemoryDirective,
    ParallelismDirective,
    SchedulesDirective,
)
from sphinx_slime_lab.reference.preflight import PreflightDirective
from sphinx_slime_lab.reference.recipes import (
    DeviationsDirective,
    FactsDirective,
    RecipesDirective,
    SourcesDirective,
)
from sphinx_slime_lab.reference.rules import CoverageDirective, RulesDirective

DIRECTIVES: dict[str, type[SphinxDirective]] = {
    "choices": ChoicesDirective,
    "rules": RulesDirective,
    "coverage": CoverageDirective,
    "flags": FlagsDirective,
    "facts": FactsDirective,
    "deviations": DeviationsDirective,
    "sources": SourcesDirective,
    "recipes": RecipesDirective,
    "parallelism": ParallelismDirective,
    "memory": MemoryDirective,
    "images": ImagesDirective,
    "schedules": SchedulesDirective,
    "preflight": PreflightDirective,
    "status": StatusDirective,
    "figure": FigureDirective,
    "budgets": BudgetsDirective,
    "cost": CostDirective,
    "api": ApiDirective,
    "data": DataDirective,
}
