"""The generated files: fixed text with ``@SLOTS@``, the rendered argument table, and ``experiment.json``.

Every slot is filled in one pass and what was filled in is never looked at again, so a path that contains ``@NAME@``
stays that path. The scripts are the same file for readers of both languages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from slime.experiment.argument_table import (
    ArgumentLine,
    Role,
    conversion_lines,
    environment_lines,
    launcher_lines,
    reference_lines,
)
from slime.experiment.expression import Value
from slime.experiment.quoting import word
from slime.experiment.repairs import validate
from slime.experiment.schema import Slot
from slime.experiment.tables import State, Tables
from slime.experiment.texts import show
from slime.experiment.validation import Validation

SLOT = re.compile(r"@([A-Z][A-Z0-9_]*)@", re.ASCII)
BLOCK_LINE = re.compile(r"[ \t]*@([A-Z][A-Z0-9_]*)@", re.ASCII)
SCHEMA = 2
BUILT_IN_BLOCKS = (
    "TRAIN_ARGUMENTS", "CONVERT_ARGUMENTS", "SERVING_ARGUMENTS", "DECODE_ARGUMENTS", "ENVIRONMENT", "PLANNED",
)  # fmt: skip
BUILT_IN_SLOTS = ("COMMIT",)
FILES = ("experiment.sh", "sglang.yaml", "serving-reference.sh", "experiment.json")
"""Every name that ``artifacts`` can give."""


def artifacts(tables: Tables, state: State, provenance: Mapping[str, Any] | None) -> dict[str, str]:
    """File name -> text, in order: ``experiment.sh``, ``sglang.yaml`` (managed prefill/decode alone),
    ``serving-reference.sh`` (external engines alone), ``experiment.json``.

    All are made even when errors remain; whoever shows them holds back all but ``experiment.json`` then.
    """
    validation = validate(tables, state)
    writer = _Writer(tables, state, validation, provenance)
    files = {"experiment.sh": writer.script("experiment.sh.in")}
    if writer.block("SGLANG_YAML"):
        files["sglang.yaml"] = "".join(line + "\n" for line in writer.block("SGLANG_YAML"))
    if state["layout"] == "external":
        files["serving-reference.sh"] = writer.script("serving-reference.sh.in")
    files["experiment.json"] = experiment_json(tables, state, validation, provenance)
    return files


def commit_text(provenance: Mapping[str, Any] | None) -> str:
    """``<40 hex>``, ``<40 hex> (modified)`` or ``unknown``."""
    if provenance is None or provenance.get("commit") is None:
        return "unknown"
    return str(provenance["commit"]) + (" (modified)" if provenance.get("dirty") is True else "")


def select_sources(provenance: Mapping[str, Any] | None, model: str) -> dict[str, Any] | None:
    """The provenance record of one experiment: the whole record with the sources of this model alone, keys sorted."""
    if provenance is None:
        return None
    sources = [one for one in provenance["sources"] if one["model"] is None or one["model"] == model]
    selected: dict[str, Any] = sort_keys({**provenance, "sources": sources})
    return selected


def sort_keys(value: Any) -> Any:
    """``value`` with the keys of its mappings sorted at every depth, so that a detour over a page changes nothing."""
    if isinstance(value, Mapping):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    return [sort_keys(one) for one in value] if isinstance(value, list) else value


def experiment_json(tables: Tables, state: State, validation: Validation, provenance: Mapping[str, Any] | None) -> str:
    """``experiment.json``, schema 2: two spaces of indent and a final newline. It holds private choices too."""
    record = {
        "schema": SCHEMA,
        "generator": "slime lab",
        "choices": {choice.name: state[choice.name] for choice in tables.fields},
        "model": tables.facts.launch[str(state["model"])].display,
        "validation": {
            "errors": validation.ids("error"),
            "notes": validation.ids("note"),
            "planned": validation.ids("planned"),
            "accounting": vars(validation.accounting),
        },
        "provenance": select_sources(provenance, str(state["model"])),
    }
    return json.dumps(record, ensure_ascii=False, indent=2) + "\n"


class _Writer:
    """Fills the templates for one state."""

    def __init__(
        self, tables: Tables, state: State, validation: Validation, provenance: Mapping[str, Any] | None
    ) -> None:
        self._tables = tables
        self._state = state
        self._validation = validation
        self._names: dict[str, Value] = tables.names(state, role="train")
        self._commit = commit_text(provenance)

    def script(self, template: str) -> str:
        """A template with its blocks and slots filled in; ends with a newline."""
        return "".join(line + "\n" for line in self._expand(self._tables.templates[template]))

    def _expand(self, text: str) -> list[str]:
        """The lines of a fixed text; a block alone on a line becomes the lines of that block."""
        lines: list[str] = []
        for line in text.rstrip("\n").split("\n"):
            match = BLOCK_LINE.fullmatch(line)
            if match is not None and self._is_block(match.group(1)):
                lines += self.block(match.group(1))
            else:
                lines.append(self._inline(line))
        return lines

    def block(self, name: str) -> list[str]:
        """The lines of one block; an unknown name has none."""
        built_in = {
            "TRAIN_ARGUMENTS": lambda: self._grouped(launcher_lines(self._tables, self._state)),
            "CONVERT_ARGUMENTS": lambda: self._grouped(conversion_lines(self._tables, self._state)),
            "SERVING_ARGUMENTS": lambda: self._reference("prefill" if self._state["pd"] else "regular"),
            "DECODE_ARGUMENTS": lambda: self._reference("decode") if self._state["pd"] else [],
            "ENVIRONMENT": lambda: ["    " + line.text for line in environment_lines(self._tables, self._state)],
            "PLANNED": self._planned,
        }
        make: Callable[[], list[str]] | None = built_in.get(name)
        return make() if make is not None else self._parts(name)

    def _is_block(self, name: str) -> bool:
        return name in BUILT_IN_BLOCKS or name in self._tables.arguments.blocks

    def _parts(self, name: str) -> list[str]:
        lines: list[str] = []
        for part in self._tables.arguments.blocks.get(name, ()):
            if part.when.test(self._names):
                lines += self._expand(part.text)
        return lines

    def _inline(self, line: str) -> str:
        return SLOT.sub(lambda match: self._slot(match.group(1), match.group(0)), line)

    def _slot(self, name: str, written: str) -> str:
        if name == "COMMIT":
            return self._commit
        slot: Slot | None = self._tables.arguments.slots.get(name)
        if slot is None:
            return written
        value = slot.value.evaluate(self._names)
        if slot.as_ == "plain":
            return show(value)
        literal = self._tables.carries_user_text(slot.value)
        return word(value if isinstance(value, int) and not isinstance(value, bool) else show(value), literal=literal)

    def _grouped(self, lines: list[ArgumentLine]) -> list[str]:
        titles = {group.id: group.title.en for group in self._tables.arguments.groups}
        shown: list[str] = []
        last = None
        for line in lines:
            if line.group != last:
                shown.append(f"    # {titles[line.group]}")
                last = line.group
            shown.append("    " + line.text)
        return shown

    def _reference(self, role: Role) -> list[str]:
        return ["    " + line.text for line in reference_lines(self._tables, self._state, role)]

    def _planned(self) -> list[str]:
        planned = [finding for finding in self._validation.findings if finding.severity == "planned"]
        return [f"# planned: {finding.message.en}" for finding in planned]
