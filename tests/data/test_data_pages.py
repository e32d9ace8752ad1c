"""The pages about data list the fields of `Sample` as the code declares them, in both languages."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

from slime.data import sample
from slime.data.sample import Sample

DOCS = Path(__file__).parents[2] / "docs"
TREE = ast.parse(Path(sample.__file__).read_text(encoding="utf-8"))


def declared() -> list[tuple[str, str, str]]:
    """Name, annotation and default of each field, as the source has them."""
    (body,) = [node.body for node in TREE.body if isinstance(node, ast.ClassDef) and node.name == "Sample"]
    fields = [node for node in body if isinstance(node, ast.AnnAssign)]
    assert [node.target.id for node in fields if isinstance(node.target, ast.Name)] == [
        field.name for field in dataclasses.fields(Sample)
    ]
    empty = Sample()
    rows = []
    for node in fields:
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        kind = ast.unparse(node.annotation).replace("npt.", "").replace("np.", "").replace("integer[Any]", "integer")
        value = getattr(empty, name)
        counters = dataclasses.is_dataclass(value)
        default = f"{type(value).__name__}()" if counters else getattr(value, "name", None) or repr(value)
        rows.append((f"`{name}`", kind, default))
    return rows


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_of_fields_is_the_codes(language: str) -> None:
    page = (DOCS / language / "reference" / "data_files.md").read_text(encoding="utf-8")
    lines = page[page.index("(data-sample)=") :].splitlines()
    rows = [line.replace("\\|", "¦").strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    found = [(cells[0], cells[1].replace("¦", "|").strip("`"), cells[2].strip("`")) for cells in rows]
    assert found == declared()
    assert all(len(cells) == 4 and cells[3] for cells in rows)
