"""The extension in a project that has nothing of this site: another theme, its own model and its own rule.

The commands of `docs/en/developer/elsewhere.md` make that project; `tests/docs/test_blocks.py` runs all of them.
`bench/themes.py` runs them in fresh environments with other themes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sphinx_slime_lab.testing import Build

PAGE = Path(__file__).resolve().parents[2] / "docs/en/developer/elsewhere.md"


@pytest.fixture(name="project")
def project_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project that the documentation makes, not built."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for block in (one for one in blocks if "acme-docs" in one and "sphinx" not in one.split("\n")[0]):
        subprocess.run(["bash", "-euo", "pipefail", "-c", block], check=True, cwd=tmp_path)
    return tmp_path / "acme-docs"


def test_an_empty_project_has_its_own_model_and_rule(build: Build, project: Path) -> None:
    """Built under alabaster without a warning: text, files and what the browser gets are the project's own."""
    assert 'html_theme = "alabaster"' in (project / "conf.py").read_text()
    built = build("", source=project, html_theme="alabaster")  # Sphinx's test application would take another
    home = built.text("index.html")
    assert "Acme 9B" in home and "alabaster.css" in home and 'class="slime-language' not in home
    assert '<span class="slime-fact">8</span>' in home
    data = json.loads(built.text("_static/slime-lab-data.js").removeprefix("window.SlimeLabData = ").rstrip(";\n"))
    assert data["project"] == "acme"
    assert "A01" in [rule["id"] for rule in data["catalog"]["rules"]]
    shell = built.text("_downloads/slime-lab/recipe/acme-9b/experiment.sh")
    assert "--recipe acme-9b" in shell and "--num-rollout 200" in shell


def test_its_rule_speaks_with_file_and_line(build: Build, project: Path) -> None:
    """A recipe that breaks it is named where it stands, as the documentation says."""
    page = project / "recipe.md"
    page.write_text(page.read_text().replace("rounds: 200", "rounds: 200\nnodes: 5"))
    said = build("", source=project, warnings=True).warnings
    assert len(said) == 1
    assert "recipe.md:5: WARNING" in said[0] and "[slime_lab.finding]" in said[0]
    assert "The cluster has 4 nodes and this needs 5: use at most 4." in said[0]
    quiet = build("", source=project, suppress_warnings=["slime_lab.finding"])
    assert "use at most 4" in quiet.text("recipe.html")
