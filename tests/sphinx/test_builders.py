"""Every builder writes the experiment; parallel and incremental builds give the same site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from sphinx_slime_lab.assets import outdated
from sphinx_slime_lab.domain import SlimeDomain
from sphinx_slime_lab.testing import Build, Built
from sphinx_slime_lab.workbench import workbench

BUILDERS = {
    "latex": "demo.tex",
    "text": "index.txt",
    "man": "demo.1",
    "texinfo": "demo.texi",
    "xml": "index.xml",
    "pseudoxml": "index.pseudoxml",
    "epub": "index.xhtml",
    "dirhtml": "index.html",
    "singlehtml": "index.html",
}
PAGES = ("index.html", "recipes.html", "plain.html", "rest.html", "searchindex.js", "objects.inv")


@pytest.mark.parametrize("name", BUILDERS)
def test_builder_has_shell_and_facts(build: Build, name: str) -> None:
    """No builder loses the shell, the findings or the layout's facts."""
    text = build("basic", buildername=name).text(BUILDERS[name])
    flat = re.sub(r"[\\{}\s]|<[^>]+>", "", text)
    assert "prepare" in flat
    assert "TP1×PP1×CP1" in flat or "TP1\u00d7PP1" in flat or "TP1times" in flat
    assert "Trainingprocesses" in flat
    assert "Thelab" in flat


def test_gettext_extracts_no_shell(build: Build) -> None:
    """Translators get the sentences, not the generated script."""
    catalog = build("basic", buildername="gettext").text("index.pot")
    assert "Choose, look, download." in catalog
    assert "set -euo pipefail" not in catalog


def test_epub_has_no_script_and_no_download(build: Build) -> None:
    """A book carries picture and text; scripts and links to files stay out."""
    page = build("basic", buildername="epub").text("index.xhtml")
    assert "<svg" in page and "slime-lab-data.js" not in page and "_downloads" not in page
    assert "data-slime-lab" not in page


def tree(built: Built) -> dict[str, bytes]:
    """Every output file but Sphinx's own bookkeeping."""
    skipped = (".buildinfo", ".doctrees", ".pickle")
    files = [path for path in built.output.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(built.output)): path.read_bytes()
        for path in files
        if not any(part in str(path.relative_to(built.output)) for part in skipped)
    }


def test_parallel_equals_serial(build: Build, recipes: Path) -> None:
    """Two readers and writers give the bytes of one."""
    serial = build("basic", slime_lab_recipes=str(recipes))
    parallel = build("basic", slime_lab_recipes=str(recipes), parallel=2)
    left, right = tree(serial), tree(parallel)
    assert set(left) == set(right)
    assert [name for name in left if left[name] != right[name]] == []


def test_incremental_reads_only_what_changed(build: Build, recipes: Path, tmp_path: Path) -> None:
    """A changed file argument re-reads its page alone, and an unchanged project re-reads nothing."""
    options: dict[str, Any] = {"output": tmp_path / "out", "slime_lab_recipes": str(recipes)}
    first = build("basic", **options)
    again = build("basic", source=first.source, **options)
    assert "0 added, 0 changed, 0 removed" in again.app.status.getvalue()
    choices = first.source / "experiment.yaml"
    choices.write_text(choices.read_text() + "rounds: 7\n")
    os.utime(choices, ns=(choices.stat().st_mtime_ns + 10**9,) * 2)
    third = build("basic", source=first.source, **options)
    assert "0 added, 1 changed, 0 removed" in third.app.status.getvalue()
    shell = (third.output / "_downloads/slime-lab/recipes/from-file/experiment.sh").read_text()
    assert "--num-rollout 7" in shell


def test_changed_data_reread_their_readers(build: Build, tmp_path: Path) -> None:
    """Another commit, or other data, re-reads every page that shows them and no other."""
    output = tmp_path / "out"
    first = build("basic", output=output)
    env = first.app.env
    env.domains["slime"].data["fingerprint"] = "of an earlier commit"
    assert outdated(first.app, env, set(), set(), set()) == ["index", "recipes", "rest"]
    env.domains["slime"].data["fingerprint"] = workbench(first.app.config).fingerprint
    assert outdated(first.app, env, set(), set(), set()) == []


def test_removed_page_leaves_no_object(build: Build, tmp_path: Path) -> None:
    """What a removed page defined is gone from the domain."""
    output = tmp_path / "out"
    first = build("basic", output=output)
    (first.source / "rest.rst").unlink()
    index = first.source / "index.md"
    index.write_text(index.read_text().replace("rest\n", ""))
    second = build("basic", source=first.source, output=output)
    domain = second.app.env.domains["slime"]
    assert isinstance(domain, SlimeDomain)
    assert ("lab", "rest-lab") not in domain.objects
    assert ("lab", "home-lab") in domain.objects


def test_duplicate_names_are_warned_of(build: Build) -> None:
    """Two labs of one name are named with both places, serial and parallel."""
    for jobs in (0, 2):
        first = build("basic")
        plain = first.source / "plain.md"
        plain.write_text(plain.read_text() + "\n```{lab}\n:name: home-lab\n```\n")
        second = build("basic", source=first.source, warnings=True, parallel=jobs)
        said = [one for one in second.warnings if "[slime_lab.duplicate]" in one]
        assert said and "duplicate lab 'home-lab'" in said[0] and re.search(r"(index|plain)\.md", said[0])
