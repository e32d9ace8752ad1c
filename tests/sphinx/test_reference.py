"""The generated reference pages: every choice, rule and flag with its anchor, and the engine's word on the examples."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from slime.config import REGISTRY
from slime.experiment.catalog import Catalog, load_catalog
from sphinx_slime_lab.reference.rules import flow
from sphinx_slime_lab.testing import Built, site_builder

ROOTS = Path(__file__).parent / "roots"


@pytest.fixture(scope="module", name="pages", params=["en", "zh_CN"])
def pages_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The reference project in both languages."""
    with site_builder(tmp_path_factory.mktemp("reference"), ROOTS) as build:
        yield build("reference", language=request.param)


@pytest.fixture(scope="module", name="catalog")
def catalog_fixture() -> Catalog:
    return load_catalog()


def entry(built: Built, anchor: str) -> str:
    """The text of one entry, up to the next one."""
    text = built.text("index.html")
    part = text[text.index(f'id="{anchor}"') :]
    end = re.search(r'<dt[^>]*>(?:<code|<span)[^>]*id="(?:field|rule)-', part[5:])
    return unescape(re.sub(r"<[^>]+>", "", part[: end.start() + 5 if end else None]))


def language(built: Built) -> str:
    return "zh" if built.app.config.language == "zh_CN" else "en"


def test_every_object_has_its_anchor(pages: Built, catalog: Catalog) -> None:
    """Anchors are the ones that the data name, each once; flags too."""
    text = pages.text("index.html")
    anchors = [rule.docs for rule in catalog.tables.rules] + [f"field-{one.name}" for one in catalog.tables.fields]
    for anchor in [*anchors, "rule-r01"]:
        assert anchor and text.count(f'id="{anchor.lower()}"') == 1, anchor
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert sum(one.startswith("flag-") for one in ids) == len(REGISTRY)


def test_every_rule_shows_the_engine_s_answer_to_its_example(pages: Built, catalog: Catalog) -> None:
    """The example, the finding with its numbers, and each repair with the values that it changes."""
    for rule in catalog.tables.rules:
        shown = entry(pages, f"rule-{rule.id.lower()}")
        assert rule.when.text in shown
        assert rule.examples.bad, f"{rule.id} has no example that breaks it"
        assert flow(rule.examples.bad[0]) in shown
        state = catalog.sanitise(dict(rule.examples.bad[0])).state
        finding = next(one for one in catalog.validate(state).findings if one.id == rule.id)
        assert finding.message.get(language(pages)) in shown, rule.id
        for repair in finding.repairs:
            assert repair.title.get(language(pages)) in shown
            for change in catalog.repair(state, rule.id, repair.id).changes:
                assert f"{change.field}: " in shown


def test_rule_e01_in_full(pages: Built) -> None:
    """One entry against values worked out by hand: 3 nodes of 8 against 64 ranks of one model copy."""
    shown = entry(pages, "rule-e01")
    for part in ("{model: glm-4.7, nodes: 3}", "24", "64", "nodes: 3 → 8"):
        assert part in shown


def test_every_choice_has_limits_default_flags_and_sharing(pages: Built, catalog: Catalog) -> None:
    """What the fields file says stands in the entry; private choices are named as such."""
    text = {"en": ("may stand in a link", "never in a link"), "zh": ("可以放进链接", "不进链接")}[language(pages)]
    for choice in catalog.tables.fields:
        shown = entry(pages, f"field-{choice.name.lower()}")
        assert text[0 if choice.share else 1] in shown, choice.name
        for value in choice.values:
            assert value.value in shown
        if choice.type == "int":
            assert str(choice.minimum) in shown.replace("\u202f", "")
            assert str(choice.maximum) in shown.replace("\u202f", "")
    assert "--actor-num-nodes" in entry(pages, "field-nodes")
    assert "--use-tis" in entry(pages, "field-correction")


def test_conditions_that_always_hold_are_left_out(pages: Built) -> None:
    """A choice that is always shown has no condition."""
    head = {"en": "Shown when", "zh": "显示条件"}[language(pages)]
    assert head not in entry(pages, "field-model") and head in entry(pages, "field-draft")


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"a": "x-1.5/y"}, "{a: x-1.5/y}"),
        ({"a": "true", "b": True, "n": 3}, '{a: "true", b: true, n: 3}'),
        ({"a": "", "b": "1e-6", "c": "a: b"}, '{a: "", b: "1e-6", c: "a: b"}'),
    ],
)
def test_examples_are_yaml(choices: dict[str, object], text: str) -> None:
    """What is shown reads back as the same choices."""
    import yaml

    assert flow(choices) == text  # type: ignore[arg-type]
    assert yaml.safe_load(text) == choices


def test_a_section_that_the_project_has_is_linked_by_its_title(tmp_path: Path) -> None:
    """A choice and the rules about it lead to the section that explains the choice; elsewhere nothing is said of it."""
    root = tmp_path / "roots"
    shutil.copytree(ROOTS / "reference", root / "reference")
    page = "(advanced-policy-mismatch-r3)=\n# Replaying routes\n"
    (root / "reference" / "guide.md").write_text(f"---\norphan: true\n---\n{page}", encoding="utf-8")
    with site_builder(tmp_path, root) as build:
        built = build("reference", language="en")
        links = built.text("index.html").count('href="guide.html#advanced-policy-mismatch-r3"')
        assert "Explained: Replaying routes" in entry(built, "field-r3")
        assert "Explained: Replaying routes" in entry(built, "rule-p21")
        assert links == 1 + sum("r3" in (rule.each or rule.fields_) for rule in load_catalog().tables.rules)
        assert "Explained" not in entry(built, "field-sc") and "{title}" not in built.text("index.html")
