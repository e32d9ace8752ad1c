"""Figures of the guides: drawn while the site is built from ``sphinx_slime_lab.formulas``, each with its numbers.

A picture shows the shape, the table beside it the values: a page without pictures (a book, a terminal) says the same.
"""

from __future__ import annotations

from collections.abc import Callable

from sphinx_slime_lab.figures import algorithms, packages, pipeline, speculation, states
from sphinx_slime_lab.figures.base import Drawn
from sphinx_slime_lab.locale import Language

FIGURES: dict[str, Callable[[Language], Drawn]] = {
    "groups": algorithms.groups,
    "clip": algorithms.clip,
    "weights": algorithms.weights,
    "ages": algorithms.ages,
    "bubble": pipeline.bubble,
    "zero": states.zero,
    "speculation": speculation.accepted,
    "packages": packages.packages,
}
