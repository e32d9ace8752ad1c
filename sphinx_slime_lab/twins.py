"""The data of the pages as JSON files next to them, for programs and for models that read.

Every build of a site writes ``slime-data/``: the choices, rules, presets, flags, arguments and recipes with their
expressions as text, the JSON Schema of ``experiment.json``, and an index of the labs with the addresses of their files.
Texts stand in both languages; keys are sorted, so the same data give the same bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slime.config import REGISTRY, Flag
from slime.experiment.expression import Expression
from slime.experiment.facts_schema import FactModel
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.facts import fact_table
from sphinx_slime_lab.html import DATA, DOWNLOADS
from sphinx_slime_lab.locale import LANGUAGES, word
from sphinx_slime_lab.workbench import Workbench, workbench

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

TWINS = {
    "index.json": "data_index",
    "choices.json": "data_choices",
    "presets.json": "data_presets",
    "rules.json": "data_rules",
    "memory.json": "data_memory",
    "arguments.json": "data_arguments",
    "flags.json": "data_flags",
    "recipes.json": "data_recipes",
    "recipes/<id>.json": "data_recipe",
    "experiments.json": "data_experiments",
    "experiment.schema.json": "data_schema",
    "provenance.json": "data_provenance",
    "tour.json": "data_tour",
}
"""File -> the word that says what it holds."""


def write(app: Sphinx, env: BuildEnvironment) -> None:
    """Write the folder afresh, in builds of sites alone."""
    if app.builder.format != "html" or app.builder.name == "epub":
        return
    folder = Path(app.outdir, DATA)
    if folder.exists():
        shutil.rmtree(folder)
    bench = workbench(app.config)
    files = {**dict(data_files(bench)), "experiments.json": experiments(app, env)}
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True)
        target.write_text(text + "\n", encoding="utf-8", newline="\n")


def data_files(bench: Workbench) -> Iterator[tuple[str, Any]]:
    """Yield every file that depends on the data alone."""
    catalog, tables = bench.catalog, bench.tables
    recipes = list(bench.facts.launch)
    listed = {name: {one: word(one, key) for one in LANGUAGES} for name, key in TWINS.items() if "<" not in name}
    names = [*listed, *(f"recipes/{recipe}.json" for recipe in recipes)]
    yield "index.json", {"commit": bench.provenance["commit"], "about": listed, "files": sorted(names)}
    yield "choices.json", [{**plain(choice), "default_now": bench.defaults[choice.name]} for choice in tables.fields]
    yield "presets.json", [{**plain(one), "choices": catalog.preset(one.id)} for one in tables.presets]
    yield "rules.json", [plain(rule) for rule in tables.rules]
    starts = {recipe: catalog.sanitise({"model": recipe}).state for recipe in bench.facts.launch}
    yield "memory.json", {recipe: [asdict(one) for one in catalog.memory(state)] for recipe, state in starts.items()}
    yield (
        "arguments.json",
        {
            "groups": [plain(group) for group in tables.arguments.groups],
            "arguments": [plain(row) for row in tables.arguments.arguments],
            "environment": [plain(row) for row in tables.arguments.environment],
        },
    )
    yield "flags.json", [_flag(flag) for flag in REGISTRY.values()]
    yield "recipes.json", [_summary(bench, recipe) for recipe in recipes]
    for recipe in recipes:
        yield f"recipes/{recipe}.json", _recipe(bench, recipe)
    yield "experiment.schema.json", catalog.schema()
    yield "provenance.json", bench.provenance
    yield "tour.json", asdict(catalog.tour())


def experiments(app: Sphinx, env: BuildEnvironment) -> list[dict[str, Any]]:
    """Return the labs and recipes of the pages; addresses are relative to the root of the site."""
    found = []
    for docname, listed in sorted(slime_domain(env).experiments.items()):
        page = app.builder.get_target_uri(docname)
        for one in listed:
            folder = "/".join(("_downloads", DOWNLOADS, docname, one["uid"]))
            files = {name: f"{folder}/{name}" for name in one["files"]}
            kept = {key: one[key] for key in ("kind", "title", "choices", "errors")}
            found.append({**kept, "page": f"{page}#{one['anchor']}", "files": files})
    return found


def plain(value: Any) -> Any:
    """Return a row of the data as JSON data, with every expression as the text that it was written as."""
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, FactModel):
        fields = type(value).model_fields
        pairs = ((field.alias or name, getattr(value, name)) for name, field in fields.items())
        return {name: plain(one) for name, one in pairs if one is not None}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _flag(flag: Flag) -> dict[str, Any]:
    return {
        "name": flag.name,
        "group": flag.group,
        "type": flag.type.__name__ if isinstance(flag.type, type) else str(flag.type),
        "many": flag.many,
        "required": flag.required,
        "default": flag.default,
        "system_default": flag.system_default,
        "sets": list(flag.sets),
        "source": flag.source,
        "since": flag.since,
        "minimum": flag.minimum,
        "maximum": flag.maximum,
        "above": flag.above,
        "choices": None if flag.choices is None else list(flag.choices),
        "runs": flag.runs,
        "only": None if flag.only is None else list(flag.only),
        "help": {one: flag.help[one] for one in LANGUAGES},
    }


def _summary(bench: Workbench, recipe_id: str) -> dict[str, Any]:
    recipe = bench.facts.launch[recipe_id]
    kept = ("id", "display", "size", "device", "hf_repo", "nodes", "gpus_per_node", "model")
    return {**{name: getattr(recipe, name) for name in kept}, "file": f"recipes/{recipe_id}.json"}


def _recipe(bench: Workbench, recipe_id: str) -> dict[str, Any]:
    recipe = bench.facts.launch[recipe_id]
    return {
        "launch": recipe.model_dump(mode="json", by_alias=True),
        "model": bench.facts.models[recipe.model].model_dump(mode="json", by_alias=True),
        "facts": fact_table(bench.facts, recipe_id),
        "choices": bench.catalog.sanitise({"model": recipe_id}).state,
    }
