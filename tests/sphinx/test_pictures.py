"""The explanatory pictures: geometry and numbers against values worked out by hand."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from slime.experiment.facts import load_facts
from sphinx_slime_lab.render.ledger import size
from sphinx_slime_lab.render.parallelism import Split, allgather, work_shares, zigzag
from sphinx_slime_lab.testing import Build

RECIPES = ("glm-4.7-flash", "glm-4-9b", "glm-4.7", "glm-5.3", "qwen3.8-27b", "deepseek-r1", "tiny")


@pytest.fixture(name="page")
def page_fixture(build: Build, tmp_path: Path) -> str:
    """Every picture of every recipe on one page."""
    source = tmp_path / "pictures"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\n')
    parts = ["T\n=\n", ".. slime:schedules::\n"]
    parts += [f".. slime:parallelism:: {recipe}\n\n.. slime:memory:: {recipe}\n" for recipe in RECIPES]
    (source / "index.rst").write_text("\n".join(parts))
    return build("", source=source).text("index.html")


def figure(page: str, uid: str) -> str:
    """One picture by the id of its title."""
    start = page.index(f'aria-labelledby="{uid}-title ')
    return page[start : page.index("</svg>", start)]


def split(recipe: str) -> Split:
    facts = load_facts()
    launch = facts.launch[recipe]
    return Split(launch, facts.models[launch.model])


def test_eight_tokens_on_two_ranks() -> None:
    """The worked example: tokens 0 1 6 7 and 2 3 4 5, or 0..3 and 4..7, in chunks of two tokens."""

    def tokens(chunks: list[list[int]]) -> list[list[int]]:
        return [[2 * chunk + one for chunk in own for one in (0, 1)] for own in chunks]

    assert tokens(zigzag(2)) == [[0, 1, 6, 7], [2, 3, 4, 5]]
    assert tokens(allgather(2)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_shares_are_those_of_counted_pairs(ranks: int) -> None:
    """Counting every pair of a query and a key it may see, at many tokens a chunk, gives the same shares."""
    each = 64
    for chunks in (zigzag(ranks), allgather(ranks)):
        pairs = [sum(token + 1 for chunk in own for token in range(chunk * each, (chunk + 1) * each)) for own in chunks]
        for said, counted in zip(work_shares(chunks), pairs, strict=True):
            assert abs(float(said.removesuffix("%")) - 100 * counted / sum(pairs)) < 0.5
    assert len(set(work_shares(zigzag(ranks)))) == 1


def test_stages_hold_every_layer() -> None:
    """Layers of the stages: the recipe's own first and last, the rest even."""
    assert split("glm-4.7-flash").stage_layers == [24, 23]
    assert split("glm-5.3").stage_layers == [14, 8, 8, 8, 8, 8, 8, 16]
    for recipe in RECIPES:
        one = split(recipe)
        assert sum(one.stage_layers) == one.model.layers and len(one.stage_layers) == one.recipe.parallel.pp
    assert [split(recipe).copies for recipe in RECIPES] == [1, 2, 1, 1, 1, 1, 1]
    assert [recipe for recipe in RECIPES if split(recipe).is_allgather] == ["glm-5.3"]


def test_a_square_for_each_gpu_of_a_copy(page: str) -> None:
    """TP x PP x CP squares, and a chunk grid of 2 CP columns for each rank."""
    for recipe in RECIPES:
        parallel = split(recipe).recipe.parallel
        name = recipe.replace(".", "-")
        drawn = figure(page, f"{name}-parallelism-stages").count('class="sl-box sl-train"')
        assert drawn == parallel.tp * parallel.pp * parallel.cp
        if parallel.cp > 1:
            for kind in ("zigzag", "allgather"):
                grid = figure(page, f"{name}-parallelism-{kind}")
                assert grid.count('class="sl-box sl-train sl-tiny"') == 2 * parallel.cp
                assert grid.count("<rect") == 2 * parallel.cp**2


@pytest.mark.parametrize(
    ("recipe", "weights", "moments", "everything"),
    [
        ("glm-4.7-flash", "60 GB", "240 GB", "540 GB"),
        ("glm-4-9b", "18 GB", "72 GB", "162 GB"),
        ("glm-4.7", "710 GB", "2840 GB", "6390 GB"),
        ("glm-5.3", "1488 GB", "5952 GB", "13392 GB"),
        ("deepseek-r1", "1342 GB", "5368 GB", "12078 GB"),
        ("qwen3.8-27b", "54 GB", "216 GB", "486 GB"),
    ],
)
def test_ledger(page: str, recipe: str, weights: str, moments: str, everything: str) -> None:
    """2, 8 and 18 bytes for each parameter, in decimal GB, in the function and on the page."""
    model = split(recipe).model
    plain = [size(model, each).replace("\u202f", "") for each in (2, 8, 18)]
    assert plain == [weights, moments, everything]
    shown = unescape(re.sub(r"<[^>]+>", "", page)).replace("\u202f", "")
    for number in plain:
        assert number in shown
    assert "not a promise that it fits" in shown


def test_lanes_never_train_on_weights_that_do_not_exist_yet(page: str) -> None:
    """In the asynchronous lanes a batch is generated with the weights of the last finished step."""
    drawn = figure(page, "schedule-async")
    assert re.findall(r">(v\d)</text>", drawn) == ["v0", "v0", "v1", "v2"]
    assert re.findall(r">(v\d → v\d)</text>", drawn) == ["v0 → v1", "v1 → v2", "v2 → v3"]
    assert re.findall(r">(v\d)</text>", figure(page, "schedule-sync")) == ["v0", "v0", "v1", "v1", "v2", "v2"]


def test_pictures_are_named_and_described(page: str) -> None:
    """Each has a title and a description of its own, and no style attribute."""
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    pictures = re.findall(r'<figure class="slime-figure">(.*?)</figure>', page, re.DOTALL)
    assert len(pictures) == 4 + 2 * len(RECIPES) + 2 * 6, "two kinds of CP for all but tiny"
    for picture in pictures:
        assert re.search(r"<title id=[^>]+>[^<]+</title>\s*<desc id=[^>]+>[^<]+</desc>", picture)
        assert "style=" not in picture


def test_nothing_is_drawn_outside_its_picture(page: str) -> None:
    """Every rectangle lies inside the view box."""
    for width, height, picture in re.findall(r'viewBox="0 0 (\d+) (\d+)".*?>(.*?)</svg>', page, re.DOTALL):
        for x, y, w, h in re.findall(r'<rect [^>]*x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', picture):
            assert int(x) + int(w) <= int(width) and int(y) + int(h) <= int(height)


def test_unknown_recipe_is_warned_of(build: Build, tmp_path: Path) -> None:
    """A picture of no recipe names the nearest one."""
    source = tmp_path / "wrong"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["sphinx_slime_lab"]\n')
    (source / "index.rst").write_text("T\n=\n\n.. slime:memory:: glm-4.6\n")
    assert any("glm-4.7" in one for one in build("", source=source, warnings=True).warnings)
