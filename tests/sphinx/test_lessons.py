"""The choices in pictures: numbers against the runtime's own code, one variant of each kind for every experiment."""

from __future__ import annotations

import json
import re
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from slime.experiment.catalog import load_catalog
from slime.experiment.facts import Facts
from sphinx_slime_lab.render import numbers, serving
from sphinx_slime_lab.testing import Build

TITLES = ("round", "serving", "bits", "agreement")


@pytest.fixture(name="page")
def page_fixture(build: Build, tmp_path: Path) -> str:
    """A page with a lab alone."""
    source = tmp_path / "lessons"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\n')
    (source / "index.rst").write_text("T\n=\n\n.. lab::\n   :name: lab\n")
    return build("", source=source).text("index.html")


def variants(page: str) -> list[tuple[dict[str, list[Any]], bool, str]]:
    """Conditions, whether it is shown at first, and the HTML of each variant."""
    part = page[page.index('data-part="lessons"') :]
    found = re.findall(r'<div data-when="([^"]*)"( hidden="")?>(.*?)</div>', part, re.DOTALL)
    return [(json.loads(unescape(when)), not hidden, html) for when, hidden, html in found]


def test_the_eight_ways_of_serving_differ() -> None:
    """Each picture has the parts of its combination and no other; no two are the same."""
    drawn = {one: [(tag, text) for tag, _, text in serving.draw(one, "en").marks] for one in serving.ALL}
    assert len(serving.ALL) == 8
    assert len({str(marks) for marks in drawn.values()}) == 8
    for one, marks in drawn.items():
        texts = [text for _, text in marks]
        assert ("Mooncake · RDMA" in texts) == one.pd
        assert ("host memory" in texts) == one.hicache
        assert ("verify" in texts) == one.speculative
        assert ("t4" in texts) != one.speculative


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_phase_has_its_sentence_and_its_marks(language: Any) -> None:
    """Playing lights up something in each phase, and as many sentences as phases."""
    for one in serving.ALL:
        figure = serving.draw(one, language)
        phases = {name for _, attributes, _ in figure.marks for name in re.findall(r"sl-p\d", attributes["class"])}
        assert phases == {f"sl-p{at}" for at in range(len(one.phases(language)))}


def test_weights_are_those_of_training() -> None:
    """Weight of the runtime's corrections at many ratios, with the limits that the shell writes."""
    torch = pytest.importorskip("torch")
    from slime.algorithms import corrections

    ratios = [0.0, 0.25, 0.5, 1.0, 1.75, 2.0, 3.0, 4.0, 100.0]
    for kind, runtime in (("tis", corrections.tis), ("icepop", corrections.icepop)):
        low, high = numbers.LIMITS[kind] or (0.0, 0.0)
        assert [numbers.weight(kind, one) for one in ratios] == runtime(torch.tensor(ratios), low, high).tolist()
    assert [numbers.weight(kind, 4.0) for kind in numbers.LIMITS] == [1.0, 2.0, 0.0]
    assert numbers.TRAINER / numbers.SAMPLER == 4.0


def test_limits_are_those_of_the_shell() -> None:
    """What the pictures say of TIS and IcePop is what the arguments carry."""
    catalog = load_catalog()
    for kind in ("tis", "icepop"):
        lines = [one.text for one in catalog.arguments({**catalog.defaults(), "correction": kind})]
        low, high = numbers.LIMITS[kind] or (0.0, 0.0)
        assert f"--tis-clip-low {low:g}" in lines and f"--tis-clip {high:g}" in lines


def test_the_weight_s_line_goes_through_its_values() -> None:
    """Ends of the drawn pieces are points of the function."""
    for kind in numbers.LIMITS:
        figure, says = numbers.weights(kind, "en")
        pieces = [
            attributes for tag, attributes, _ in figure.marks if tag == "line" and "sl-weight" in attributes["class"]
        ]
        assert len(pieces) == {"none": 1, "tis": 2, "icepop": 3}[kind]
        for piece in pieces:
            middle = (piece["x1"] + piece["x2"]) / 2
            ratio = (middle - numbers._x(0)) / (numbers._x(1) - numbers._x(0))
            drawn = (numbers._y(0) - (piece["y1"] + piece["y2"]) / 2) / (numbers._y(0) - numbers._y(1))
            assert abs(drawn - numbers.weight(kind, ratio)) < 0.02
        assert f"w = {numbers.weight(kind, 4.0):g}" in says or kind == "none"


def test_bits_are_drawn_one_by_one(page: str) -> None:
    """A cell for each bit, and the number beside them."""
    for kind, count in re.findall(r'aria-labelledby="lab-lesson-bits-([a-z]+)-(\d+)-title', page):
        start = page.index(f'aria-labelledby="lab-lesson-bits-{kind}-{count}-title')
        assert page[start : page.index("</svg>", start)].count("<rect") == int(count)
    hybrid = page[page.index("lab-lesson-qwen3-8-27b-title") :]
    hybrid = hybrid[: hybrid.index("</svg>")]
    assert hybrid.count("sl-rollout") == 16 and hybrid.count("sl-host") == 48


def test_each_experiment_sees_one_variant_of_each_kind(page: str) -> None:
    """One schedule, one way of serving, one bar a tensor, one weight; routes for MoE, states for hybrid models."""
    catalog = load_catalog()
    all_of = variants(page)
    assert len(all_of) > 25
    names = ("schedule", "partial", "straw", "pd", "hicache", "speculative")
    base = catalog.defaults()
    facts = catalog.tables.facts
    for model in facts.launch:
        for values in product(("sync", "async"), *[(False, True)] * 5):
            seen(facts, all_of, {**base, "model": model, **dict(zip(names, values, strict=True))})
        for precision, kv in product(("bf16", "fp8", "fp8train", "int4"), ("auto", "fp8")):
            seen(facts, all_of, {**base, "model": model, "precision": precision, "kv": kv})
    assert [html for when, shown, html in all_of if shown != holds(when, base)] == []


def holds(when: dict[str, list[Any]], state: dict[str, Any]) -> bool:
    return all(state[name] in values for name, values in when.items())


def seen(facts: Facts, all_of: list[tuple[dict[str, list[Any]], bool, str]], state: dict[str, Any]) -> None:
    """Check what an experiment sees."""
    ids = [
        match[1]
        for when, _, html in all_of
        if holds(when, state) and (match := re.search(r'<title id="lab-lesson-([^"]+)-title"', html))
    ]
    kinds = sorted(
        re.sub(r"-(glm|qwen|deepseek|tiny).*", "", one.rsplit("-", 1)[0] if "bits" in one else one.split("-")[0])
        for one in ids
    )
    model = facts.models[facts.launch[state["model"]].model]
    wanted = ["bits-kv", "bits-rollout", "bits-train", "round", "serving", "weight"]
    wanted += ["routes"] if model.moe else []
    wanted += ["bits", "qwen3"] if model.hybrid else []
    assert kinds == sorted(wanted), (state, ids)
