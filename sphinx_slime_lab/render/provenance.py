"""The panel that says what an experiment's files were made from, and what nobody has checked.

The record is the one of ``experiment.json``: commit, sources with the hashes of the files in use, known container
builds, and what cannot be known while a page is built. The twin in the browser is ``js/src/ui/provenance.js``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docutils import nodes

from slime.experiment.artifacts import select_sources
from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import Language, has_word, word
from sphinx_slime_lab.render.parts import details
from sphinx_slime_lab.render.tables import Cell, code, table
from sphinx_slime_lab.workbench import Experiment, Workbench


def provenance(bench: Workbench, experiment: Experiment) -> ours.lab_details:
    """Return the collapsed panel of one experiment."""
    language = bench.language
    record = select_sources(bench.provenance, str(experiment.state["model"])) or {}
    summary = [
        (word(language, "commit"), _commit(record, language)),
        (word(language, "tree"), word(language, f"tree_{_state(record['dirty'])}")),
        (word(language, "static_checks"), word(language, "static_done")),
        (word(language, "on_gpus"), word(language, "gpu_none")),
    ]
    sources = [
        (
            source_link(bench, one["path"], record["commit"]),
            code(one["sha256"]),
            word(language, _state(one["modified"])),
        )
        for one in record["sources"]
    ]
    return details(
        "provenance",
        word(language, "provenance"),
        nodes.paragraph("", word(language, "provenance_says")),
        table(_heads(language, "fact", "value"), summary, (30, 70), "provenance"),
        table(_heads(language, "source_file", "sha256", "source_state"), sources, (40, 44, 16), "sources"),
        nodes.paragraph("", word(language, "containers_say")),
        table(_heads(language, "container", "version"), _containers(record, language), (50, 50), "containers"),
        nodes.paragraph("", word(language, "runtime_says")),
        table(_heads(language, "fact", "value"), _runtime(record, language), (50, 50), "runtime"),
        nodes.paragraph("", "", ours.lab_data("", word(language, "schema_link"), path="experiment.schema.json")),
    )


def source_link(bench: Workbench, path: str, commit: str | None) -> nodes.Node:
    """Return a data file's path, linked to the commit when both the commit and the site of the sources are known."""
    if not bench.source_url or commit is None:
        return code(path)
    target = bench.source_url.replace("{commit}", commit).replace("{path}", path)
    return nodes.reference("", "", code(path), refuri=target)


def _heads(language: Language, *keys: str) -> list[str]:
    return [word(language, key) for key in keys]


def _state(changed: bool | None) -> str:
    return "unknown" if changed is None else "modified" if changed else "unchanged"


def _commit(record: Mapping[str, Any], language: Language) -> Cell:
    if record["commit"] is not None:
        return code(record["commit"])
    key = f"reason_{str(record['commit_reason']).replace(' ', '_')}"
    reason = word(language, key) if has_word(key) else str(record["commit_reason"])
    return word(language, "unknown_because", reason=reason)


def _containers(record: Mapping[str, Any], language: Language) -> list[tuple[Cell, Cell]]:
    unknown = word(language, "unknown")
    images: list[tuple[Cell, Cell]] = [
        (code(one["reference"]) if one["reference"] else one["id"], one["toolkit"] or unknown)
        for one in record["containers"]["images"]
    ]
    return images + [
        (one["name"], " ".join(filter(None, (one["version"], one["commit"] and f"@ {one['commit']}"))) or unknown)
        for one in record["containers"]["components"]
    ]


def _runtime(record: Mapping[str, Any], language: Language) -> list[tuple[Cell, Cell]]:
    unknown = word(language, "unknown")
    return [
        (word(language, f"runtime_{key}"), unknown if value == "unknown" else str(value))
        for key, value in record["runtime"].items()
    ]
