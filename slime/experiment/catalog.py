"""The engine: one object that answers every question about an experiment.

``load_catalog()`` reads the data once; every method is a pure function of its arguments. The JavaScript twin has the
same methods (``createEngine(catalog.to_json())``) and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slime.experiment import argument_table, artifacts, choices, comparison, importing, repairs, sharing
from slime.experiment.browser import catalog_json
from slime.experiment.export_schema import export_schema
from slime.experiment.facts import Facts
from slime.experiment.layout import Layout, layout
from slime.experiment.loading import DATA_FILES, load_tables
from slime.experiment.memory import Phase, memory
from slime.experiment.provenance import collect, source_files
from slime.experiment.tables import Scalar, State, Tables
from slime.experiment.texts import Text, both
from slime.experiment.tour import Tour, tour
from slime.experiment.validation import Finding, Validation


@dataclass(frozen=True)
class DisabledOption:
    """A value that the page does not offer right now, and why."""

    field: str
    value: Scalar
    why: Text


@dataclass(frozen=True)
class View:
    """What a page shows for a state: the visible choices in order, and the values it disables."""

    visible: list[str]
    disabled: list[DisabledOption]


class Catalog:
    """Fields, rules, arguments and facts, and what can be asked of them."""

    def __init__(self, tables: Tables, root: Path | None = None) -> None:
        self.tables = tables
        self._root = root

    @property
    def facts(self) -> Facts:
        """The models, recipes and images."""
        return self.tables.facts

    def defaults(self) -> State:
        """The starting state."""
        return choices.defaults(self.tables)

    def sanitise(self, raw: Any) -> choices.Sanitised:
        """Outside input as a complete, legal state, with what could not be used. Never raises."""
        return choices.sanitise(self.tables, raw)

    def change(self, state: State, field: str, value: Scalar) -> choices.Change:
        """One edit with its linked changes. Raises ``ChoiceError``; ``state`` is not modified."""
        return choices.change(self.tables, state, field, value)

    def preset(self, preset_id: str) -> State:
        """The state of a named starting point. Raises ``ChoiceError`` for an unknown one."""
        return choices.preset(self.tables, preset_id)

    def view(self, state: State) -> View:
        """Which choices are visible and which values are disabled."""
        names = self.tables.names(state)
        visible = [choice.name for choice in self.tables.fields if choice.visible.test(names)]
        disabled = [
            DisabledOption(choice.name, option.value, both(option.why))
            for choice in self.tables.fields
            for option in choice.options
            if option.when.test(names)
        ]
        return View(visible, disabled)

    def suspects(self, finding: Finding) -> list[str]:
        """The choices to look at for a finding, best first: its fields, then what its rule reads, last the model."""
        read = [
            name for rule in self.tables.rules if rule.id == finding.id for name in self.tables.choices_of(rule.when)
        ]
        return list(dict.fromkeys([*finding.fields, *(name for name in read if name != "model"), "model"]))

    def validate(self, state: State) -> Validation:
        """Findings (with the repairs that were proven to work) and GPU accounting."""
        return repairs.validate(self.tables, state)

    def repair(self, state: State, finding_id: str, repair_id: str) -> repairs.RepairPreview:
        """What an offered repair would do. Raises ``ChoiceError`` when it is not offered."""
        return repairs.preview(self.tables, state, finding_id, repair_id)

    def layout(self, state: State) -> Layout:
        """The picture of where the GPUs go."""
        return layout(self.tables, state)

    def memory(self, state: State) -> list[Phase]:
        """The estimate of memory: what each part takes on one rank of each kind, phase by phase."""
        return memory(self.tables, state)

    def compare(self, a: State, b: State) -> comparison.Comparison:
        """A against B: differences with what they follow from, generated lines, findings and GPUs of both."""
        return comparison.compare(self.tables, a, b)

    def load(self, text: str) -> importing.Loaded:
        """An experiment from JSON text. Raises ``LoadError`` when it holds none."""
        return importing.load(self.tables, text)

    def share(self, state: State, a: State | None = None) -> sharing.Shared:
        """The link of an experiment (and of A beside it) without any private choice."""
        return sharing.share(self.tables, state, a)

    def receive(self, link: str) -> sharing.Received | None:
        """The experiment of a link, None when there is none in it. Raises ``LoadError``."""
        return sharing.receive(self.tables, link)

    def tour(self) -> Tour:
        """The example of one GRPO round, its numbers computed by the training code."""
        return tour(self.tables.tour)

    def arguments(self, state: State) -> list[argument_table.ArgumentLine]:
        """The flags of ``slime train`` with reasons and status, in the order of the script."""
        return argument_table.launcher_lines(self.tables, state)

    def environment(self, state: State) -> list[argument_table.EnvironmentLine]:
        """The environment variables of the training job, with reasons."""
        return argument_table.environment_lines(self.tables, state)

    def artifacts(self, state: State, provenance: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The generated files by name, in order. They are the same for readers of both languages."""
        return artifacts.artifacts(self.tables, state, provenance)

    def provenance(self, repo_root: Path | None = None) -> dict[str, Any]:
        """Commit, state and sha256 of the data files in use, as plain JSON data.

        ``repo_root`` None means the folder above the one that the catalogue was read from.
        """
        if repo_root is None and self._root is not None:
            repo_root = self._root.resolve().parent
        return collect(repo_root, source_files(self.facts, DATA_FILES), self.facts.images)

    def to_json(self) -> dict[str, Any]:
        """Everything the browser's engine needs, as plain JSON data."""
        return catalog_json(self.tables)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of ``experiment.json``."""
        return export_schema(self.tables)


def load_catalog(root: Path | None = None) -> Catalog:
    """Read ``root`` (the folder ``recipes``; default: found next to the package or inside it).

    Raises ``FactError`` or ``CatalogError``, each with ``file:line``.
    """
    return Catalog(load_tables(root), root)
