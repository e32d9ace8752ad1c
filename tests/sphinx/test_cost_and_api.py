"""The table of a recipe's costs and the entries of the Python API, on a page of a small project."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from slime.experiment import load_catalog
from sphinx_slime_lab.testing import site_builder

PAGE = """# Page

```{slime:cost} glm-4-9b
```

```{slime:api} slime.rollout.filters.DynamicFilterOutput slime.data.sample.Sampel
```

{ref}`the filter's answer <api-slime-rollout-filters-dynamicfilteroutput>`,
{ref}`a rule <preflight-gold-answers>`

```{slime:preflight}
```
"""


def test_the_tables_come_from_the_engine_and_the_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["myst_parser", "sphinx_slime_lab"]\n', encoding="utf-8")
    (source / "index.md").write_text(PAGE, encoding="utf-8")
    with site_builder(tmp_path, tmp_path) as build:
        built = build("page", source=source, output=tmp_path / "out", warnings=True)
    assert [one for one in built.warnings if "Sampel" not in one] == []
    assert "slime.data.sample has no 'Sampel'; write Sample" in built.warnings[0]
    html = built.text("index.html")
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
    catalog = load_catalog()
    phases = {one.id: one for one in catalog.memory(catalog.sanitise({"model": "glm-4-9b"}).state)}
    for name in ("training", "generation", "sync", "host"):
        assert max(phases[name].totals or [], key=lambda cell: cell.amount).text in text
    (checkpoint,) = [row.cells[0] for row in phases["disk"].rows if row.id == "checkpoint"]
    assert checkpoint is not None and checkpoint.text in text
    assert "from slime.rollout.filters import DynamicFilterOutput" in text and "keep_when_insufficient" in text
    for label in ("api-slime-rollout-filters-dynamicfilteroutput", "preflight-gold-answers"):
        assert f'id="{label}"' in html and f'href="#{label}"' in html
