"""Experiments as data: facts, choices, checks and the files that they become. No torch here.

``load_catalog()`` gives the engine; ``Catalog`` has the methods.
"""

from __future__ import annotations

from slime.experiment.catalog import Catalog, load_catalog
from slime.experiment.errors import CatalogError, ChoiceError, ExperimentError, ExpressionError, InputError, LoadError

__all__ = [
    "Catalog",
    "CatalogError",
    "ChoiceError",
    "ExperimentError",
    "ExpressionError",
    "InputError",
    "LoadError",
    "load_catalog",
]
