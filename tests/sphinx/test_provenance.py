"""The provenance panel: the record of the downloaded file in words, never more than is known."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from sphinx_slime_lab.testing import Build, Built

WORDS = re.compile(r"<[^>]+>")


def panel(built: Built, page: str = "index.html") -> str:
    """The panel's text without markup."""
    text = built.text(page)
    part = text[text.index('data-part="provenance"') :]
    return unescape(WORDS.sub(" ", part[: part.index("</details>")]))


def record(built: Built) -> dict[str, object]:
    """The provenance of the file behind the page's link."""
    path = built.output / "_downloads/slime-lab/index/home-lab/experiment.json"
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))["provenance"]
    return found


@pytest.fixture(name="checkout")
def checkout_fixture(tmp_path: Path, recipes: Path) -> Path:
    """A checkout with one commit of the data."""
    folder = tmp_path / "checkout"
    shutil.copytree(recipes, folder / "recipes")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "data"]):
        subprocess.run([*git, *command], check=True)
    return folder


def test_without_a_checkout_the_commit_is_unknown(build: Build, recipes: Path) -> None:
    """Outside of git everything about the commit is said to be unknown; hashes are there."""
    built = build("basic", slime_lab_recipes=str(recipes))
    said = panel(built)
    assert "unknown: not a git checkout" in said
    assert "unknown, since there is no commit to compare with" in said
    assert hashlib.sha256((recipes / "launch/tiny.yaml").read_bytes()).hexdigest() in said
    assert said.count("unknown") >= 8
    assert record(built)["commit"] is None


def test_clean_checkout_names_its_commit_and_links_to_it(build: Build, checkout: Path) -> None:
    """The panel has the commit, the page's model's own files and links to exactly this commit."""
    head = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    built = build(
        "basic",
        slime_lab_recipes=str(checkout / "recipes"),
        slime_lab_source_url="https://example.org/blob/{commit}/{path}",
    )
    said = panel(built)
    assert head in said and "the files below are those of the commit" in said and "modified" not in said
    assert "recipes/launch/tiny.yaml" in said and "recipes/launch/glm-4.7.yaml" not in said
    assert f'href="https://example.org/blob/{head}/recipes/launch/tiny.yaml"' in built.text("index.html")
    for one in record(built)["sources"]:  # type: ignore[attr-defined]
        assert one["sha256"] in said and one["path"] in said


def test_changed_file_is_marked_and_hashed_as_it_is(build: Build, checkout: Path) -> None:
    """A file that differs from the commit says so, with the hash of what was used."""
    changed = checkout / "recipes/launch/tiny.yaml"
    changed.write_text(changed.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    built = build("basic", slime_lab_recipes=str(checkout / "recipes"), language="zh_CN")
    said = panel(built)
    assert said.count("已改动") == 2, "the summary and one row"
    assert hashlib.sha256(changed.read_bytes()).hexdigest() in said


def test_nothing_claims_a_run_on_gpus(site: Built) -> None:
    """The panel denies it in words, the record in data."""
    assert "neither the checks nor this record say that it ran on GPUs" in panel(site)
    assert record(site)["validation"] == {"static": True, "gpu": "none"}


def test_wrong_address_of_sources_is_warned_of(build: Build) -> None:
    """An address without its slots is refused, and paths stay unlinked."""
    built = build("basic", warnings=True, slime_lab_source_url="https://example.org")
    assert any("slime_lab_source_url" in one and "{commit}" in one for one in built.warnings)
