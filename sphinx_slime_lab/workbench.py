"""The engine as the extension uses it: one catalog for each set of options, and checked experiments.

Nothing here writes nodes. The catalog and the provenance of the recipes are read once a build.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import ConfigError

from slime.config import REGISTRY
from slime.experiment.argument_table import ArgumentLine
from slime.experiment.catalog import Catalog, load_catalog
from slime.experiment.errors import CatalogError
from slime.experiment.facts import FactError, Facts, default_root
from slime.experiment.facts_schema import Words
from slime.experiment.layout import Layout
from slime.experiment.schema import ChoiceField
from slime.experiment.tables import Scalar, State, Tables
from slime.experiment.texts import Text, nearest
from slime.experiment.validation import Accounting, Finding
from sphinx_slime_lab import config as lab_config
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.locale import Language, language_of, word

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment


@dataclass(frozen=True)
class Experiment:
    """A complete state and everything that follows from it."""

    state: State
    findings: list[Finding]
    accounting: Accounting
    layout: Layout
    arguments: list[ArgumentLine]
    artifacts: dict[str, str]
    device: str

    @property
    def errors(self) -> list[Finding]:
        """The findings that withhold the runnable files."""
        return [finding for finding in self.findings if finding.severity == "error"]


@dataclass(frozen=True)
class Workbench:
    """One catalog with the language of the pages."""

    catalog: Catalog
    language: Language
    root: Path
    repository: Path
    source_url: str = ""

    @property
    def tables(self) -> Tables:
        """The engine's data."""
        return self.catalog.tables

    @property
    def facts(self) -> Facts:
        """Models and recipes."""
        return self.tables.facts

    @cached_property
    def defaults(self) -> State:
        """The state that an empty mapping gives."""
        return self.catalog.defaults()

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What the generated files are made from; the same record that ``slime lab render`` writes."""
        record: dict[str, Any] = self.catalog.provenance(self.repository)
        return record

    @cached_property
    def dependencies(self) -> list[str]:
        """Every data file, so that a page is read again when one of them changes."""
        return sorted(str(path) for path in self.root.rglob("*") if path.is_file())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that the pages show of the data, the commit included."""
        text = json.dumps([self.catalog.to_json(), self.provenance], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def experiment(self, state: State) -> Experiment:
        """Return what follows from a state."""
        validation = self.catalog.validate(state)
        return Experiment(
            state=state,
            findings=validation.findings,
            accounting=validation.accounting,
            layout=self.catalog.layout(state),
            arguments=self.catalog.arguments(state),
            artifacts=self.catalog.artifacts(state, self.provenance),
            device=self.facts.launch[str(state["model"])].device,
        )

    def note_reader(self, env: BuildEnvironment) -> None:
        """Record that the current document depends on the data."""
        slime_domain(env).readers[env.docname] = True
        for path in self.dependencies:
            env.note_dependency(path)

    def text(self, words: Words | Text) -> str:
        """Return a sentence of the data in the language of the pages."""
        return words.zh if self.language == "zh" else words.en

    def field_label(self, name: str) -> str:
        """Return the label of a choice."""
        return self.text(self.tables.by_name[name].label)

    def visible_fields(self, state: State) -> list[ChoiceField]:
        """Return the choices that matter under a state, in the order of the steps."""
        names = self.tables.names(state)
        return [choice for choice in self.tables.fields if choice.visible.test(names)]

    def value_label(self, name: str, value: Scalar) -> str:
        """Return a value in words."""
        choice = self.tables.by_name[name]
        if choice.type == "enum":
            return next((self.text(one.label) for one in choice.values if one.value == value), str(value))
        if choice.type == "bool":
            return word(self.language, "yes_" if value else "no_")
        return str(value) if value != "" else word(self.language, "empty")

    def unknown(self, kind: str, target: str) -> str | None:
        """Return a sentence when the data have no such recipe, field, rule or flag."""
        known: dict[str, list[str]] = {
            "recipe": list(self.facts.launch),
            "field": list(self.tables.by_name),
            "rule": ["R01", *(rule.id for rule in self.tables.rules)],
            "flag": list(REGISTRY),
        }
        if target in known[kind]:
            return None
        close = nearest(target, known[kind])
        return f"there is no {kind} {target!r}" + (f"; did you mean {close}?" if close else "")


@lru_cache(maxsize=8)
def _open(recipes: str | None, repository: str | None, source_url: str, language: Language) -> Workbench:
    root = Path(recipes) if recipes else default_root()
    return Workbench(load_catalog(root), language, root, Path(repository) if repository else root.parent, source_url)


def workbench(config: Config) -> Workbench:
    """Return the workbench of a Sphinx configuration."""
    options = lab_config.read(config)
    return _open(options.recipes, options.repository, options.source_url, language_of(config))


def workbench_of(env: BuildEnvironment) -> Workbench:
    """Return the workbench of an environment."""
    return workbench(env.config)


def open_workbench(app: Sphinx) -> None:
    """Read the data afresh at the start of a build: a later build in one process may find another commit."""
    _open.cache_clear()
    try:
        workbench(app.config)
    except (CatalogError, FactError) as error:
        raise ConfigError(f"the data of the lab cannot be used:\n{error}") from error
