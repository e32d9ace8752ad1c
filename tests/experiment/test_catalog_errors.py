"""Broken engine data: each mistake is an error with file, line and the nearest legal word."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slime.experiment import CatalogError, load_catalog

RECIPES = Path(__file__).parents[2] / "recipes"

FIELDS, RULES = "fields.yaml", "rules.yaml"
BROKEN = [
    (FIELDS, "    type: bool", "    tpye: bool", "unknown key; did you mean type?"),
    (FIELDS, "    step: placement", "    step: placment", "there is no step placment; did you mean placement?"),
    (FIELDS, "from_launch: nodes", "from_launch: node", "launch files have no default of this name; nearest: nodes"),
    (FIELDS, "layout != 'colocate'", "layout != 'colocated'", "no value of layout colocated; did you mean colocate?"),
    (FIELDS, "nodes * gpus_per_node,", "nodes * gpus_per_nod,", "no name gpus_per_nod; did you mean gpus_per_node?"),
    (FIELDS, "name: dp,", "name: dpp,", "the derived values dp are missing"),
    ("transitions.yaml", "on: schedule", "on: schedul", "there is no choice schedul; did you mean schedule?"),
    ("transitions.yaml", "set: {layout:", "set: {layuot:", "there is no choice layuot; did you mean layout?"),
    (RULES, "severity: error", "severity: fatal", "Input should be 'error' or 'note'"),
    (RULES, "    when: ", "    when: layout.x or ", "not allowed in an expression: layout.x"),
    ("arguments.yaml", "--actor-num-nodes", "--actor-num-node", "no flag of the runtime; nearest: --actor-num-nodes"),
    ("presets.yaml", "set: {model: tiny}", "set: {modle: tiny}", "there is no choice modle; did you mean model?"),
]


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    shutil.copytree(RECIPES, tmp_path / "recipes")
    return tmp_path / "recipes"


@pytest.mark.parametrize(("name", "old", "new", "says"), BROKEN, ids=[new.strip() for _, _, new, _ in BROKEN])
def test_a_typo_is_named_with_its_line(recipes: Path, name: str, old: str, new: str, says: str) -> None:
    path = recipes / "experiment" / name
    text = path.read_text(encoding="utf-8")
    assert old in text, "the shipped file no longer holds what this case breaks"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CatalogError) as caught:
        load_catalog(recipes)
    assert says in str(caught.value)
    line = text[: text.index(old)].count("\n") + 1
    places = [f"recipes/experiment/{name}:{number}:" for number in range(max(1, line - 3), line + 2)]
    if "are missing" not in says:
        assert any(place in str(caught.value) for place in places), str(caught.value)


def test_a_slot_that_does_not_exist(recipes: Path) -> None:
    path = recipes / "experiment" / "experiment.sh.in"
    path.write_text(path.read_text(encoding="utf-8") + "echo @COMIT@\n", encoding="utf-8")
    with pytest.raises(CatalogError, match=r"experiment\.sh\.in:\d+: there is no slot COMIT; did you mean COMMIT\?"):
        load_catalog(recipes)


def test_a_users_text_may_not_stand_unquoted(recipes: Path) -> None:
    path = recipes / "experiment" / "arguments.yaml"
    text = path.read_text(encoding="utf-8").replace("slots:\n", "slots:\n  BAD: {value: ib, as: plain}\n", 1)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=r"slots\.BAD: a text that a user typed may not stand unquoted"):
        load_catalog(recipes)


def test_a_missing_file(recipes: Path) -> None:
    (recipes / "experiment" / "presets.yaml").unlink()
    with pytest.raises(CatalogError, match=r"presets\.yaml: the file is missing"):
        load_catalog(recipes)
