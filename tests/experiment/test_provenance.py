"""Provenance: hashes of the bytes in use, the commit, and what cannot be known said as unknown."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from slime.experiment import Catalog, ExperimentError, load_catalog

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout that holds the recipes and one commit."""
    root = tmp_path / "checkout"
    shutil.copytree(RECIPES, root / "recipes")
    _git(root, "init", "-q")
    _git(root, "add", "-A")
    _git(root, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "start")
    return root


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout


def test_a_clean_checkout(checkout: Path) -> None:
    record = load_catalog(checkout / "recipes").provenance()
    assert record["commit"] == _git(checkout, "rev-parse", "HEAD").strip() and record["dirty"] is False
    assert record["commit_reason"] is None
    for source in record["sources"]:
        assert source["sha256"] == hashlib.sha256((checkout / source["path"]).read_bytes()).hexdigest()
        assert source["modified"] is False
    assert set(record["runtime"].values()) == {"unknown"}
    assert record["validation"] == {"static": True, "gpu": "none"}
    assert {one["name"] for one in record["containers"]["components"]} >= {"SGLang", "Megatron-LM"}


def test_only_the_listed_files_make_it_dirty(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("x", encoding="utf-8")
    catalog = load_catalog(checkout / "recipes")
    assert catalog.provenance()["dirty"] is False
    with (checkout / "recipes/launch/tiny.yaml").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    record = catalog.provenance()
    assert record["dirty"] is True
    assert [one["path"] for one in record["sources"] if one["modified"]] == ["recipes/launch/tiny.yaml"]
    script = catalog.artifacts(catalog.defaults(), record)["experiment.sh"]
    assert f"{record['commit']} (modified)" in script


def test_a_copy_without_git_has_no_commit(tmp_path: Path) -> None:
    shutil.copytree(RECIPES, tmp_path / "recipes")
    catalog = load_catalog(tmp_path / "recipes")
    record = catalog.provenance()
    assert (record["commit"], record["dirty"], record["commit_reason"]) == (None, None, "not a git checkout")
    assert {one["modified"] for one in record["sources"]} == {None}
    assert "commit unknown" in catalog.artifacts(catalog.defaults(), record)["experiment.sh"]


def test_a_folder_inside_another_checkout_is_not_that_checkout(checkout: Path) -> None:
    inner = checkout / "vendor"
    shutil.copytree(RECIPES, inner / "recipes")
    assert load_catalog(inner / "recipes").provenance()["commit"] is None


def test_a_missing_source_is_an_error(checkout: Path) -> None:
    catalog = load_catalog(checkout / "recipes")
    (checkout / "recipes/experiment/rules.yaml").unlink()
    with pytest.raises(ExperimentError, match=r"rules\.yaml: cannot be read"):
        catalog.provenance()


def test_an_experiment_holds_the_sources_of_its_model_alone(catalog: Catalog, checkout: Path) -> None:
    record = load_catalog(checkout / "recipes").provenance()
    exported = json.loads(catalog.artifacts(catalog.preset("laptop"), record)["experiment.json"])
    assert {one["model"] for one in exported["provenance"]["sources"]} == {None, "tiny"}
    shuffled = json.loads(json.dumps(record, sort_keys=True))
    assert catalog.artifacts(catalog.defaults(), record) == catalog.artifacts(catalog.defaults(), shuffled)
