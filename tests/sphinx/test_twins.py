"""The JSON files next to the pages: complete, linked, the same bytes for the same data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from slime.config import REGISTRY
from slime.experiment.catalog import load_catalog
from sphinx_slime_lab.testing import Build, Built
from sphinx_slime_lab.twins import TWINS


def read(site: Built, name: str) -> Any:
    return json.loads((site.output / "slime-data" / name).read_text(encoding="utf-8"))


def test_index_names_every_file(site: Built) -> None:
    """The list and the folder agree, and the files of recipes are there."""
    folder = site.output / "slime-data"
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json"))
    assert read(site, "index.json")["files"] == found
    assert {"recipes/tiny.json", "recipes/glm-5.3.json"} <= set(found)
    assert {name for name in TWINS if "<" not in name} <= set(found)


def test_files_have_the_data(site: Built) -> None:
    """Counts and values against the engine and the registry; expressions are the text that was written."""
    catalog = load_catalog()
    assert [one["name"] for one in read(site, "choices.json")] == list(catalog.defaults())
    assert [one["id"] for one in read(site, "rules.json")] == [rule.id for rule in catalog.tables.rules]
    rule = read(site, "rules.json")[0]
    assert rule["when"] == "train_gpus % model_parallel != 0 or train_gpus % expert_parallel != 0"
    assert rule["docs"] == "rule-e01" and rule["examples"]["bad"][0] == {"model": "glm-4.7", "nodes": 3}
    presets = {one["id"]: one["choices"] for one in read(site, "presets.json")}
    assert presets["laptop"] == catalog.preset("laptop")
    weights = next(row for row in read(site, "memory.json")["tiny"][0]["rows"] if row["id"] == "weights")
    assert weights["cells"] == [{"amount": 4 * 426_752, "text": "1.7 MB"}]
    assert len(read(site, "flags.json")) == len(REGISTRY)
    recipe = read(site, "recipes/glm-4.7.json")
    assert recipe["launch"]["parallel"]["tp"] == recipe["facts"]["tp"] == 8
    assert recipe["model"]["moe"]["experts"] == 160
    assert read(site, "tour.json")["numbers"]["variance"] == "2/7"


def test_schema_accepts_every_generated_file(site: Built) -> None:
    """The published schema judges the experiment.json of each lab, which the index of experiments leads to."""
    schema = read(site, "experiment.schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    listed = read(site, "experiments.json")
    assert [(one["kind"], one["page"]) for one in listed] == [
        ("lab", "index.html#home-lab"),
        ("recipe", "recipes.html#glm-4-7"),
        ("recipe", "recipes.html#from-file"),
        ("lab", "rest.html#rest-lab"),
    ]
    for one in listed:
        page, anchor = one["page"].split("#")
        assert f'id="{anchor}"' in site.text(page)
        for name, address in one["files"].items():
            assert (site.output / address).is_file(), name
        exported = json.loads(site.text(one["files"]["experiment.json"]))
        jsonschema.validate(exported, schema)
        assert exported["choices"] == one["choices"]


def test_errors_leave_only_what_may_be_exported(build: Build, tmp_path: Path) -> None:
    """An experiment with an error is listed with it, and its shell is not."""
    source = tmp_path / "wrong"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\n')
    (source / "index.rst").write_text("T\n=\n\n.. lab::\n   :name: x\n   :expect: E04\n\n   schedule: async\n")
    (one,) = read(build("", source=source), "experiments.json")
    assert one["errors"] == ["E04"] and list(one["files"]) == ["experiment.json"]


def test_pages_link_to_their_twin(build: Build) -> None:
    """Each table names its file by an address that is right from where the page is, in both kinds of address."""
    built = build("reference")
    page = built.text("index.html")
    for name in ("choices.json", "rules.json", "flags.json", "recipes.json", "recipes/glm-5.3.json"):
        assert f'href="slime-data/{name}"' in page
    nested = build("basic", buildername="dirhtml").text("recipes/index.html")
    assert 'href="../slime-data/experiment.schema.json"' in nested


def test_other_builders_write_no_data(build: Build) -> None:
    """A book and a text have no files next to them, and no dead link."""
    for name in ("epub", "text"):
        built = build("basic", buildername=name)
        assert not (built.output / "slime-data").exists()
    assert "slime-data" not in build("basic", buildername="epub").text("index.xhtml")
