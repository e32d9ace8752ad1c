"""Links: the stored ones, what travels and what never does, migrations, and hostile input; always in both languages."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from slime.experiment import Catalog, CatalogError, LoadError
from slime.experiment.link_checks import check_links
from slime.experiment.links_today import starting_points
from slime.experiment.place import Place
from slime.experiment.schema import LinksFile
from slime.experiment.sharing import Side

from .corpus import link_paths, load_link
from .twin import ask, canonical

FROZEN = {1: "453dff996a39e783aa64bfe8de914c48"}
"""What the starting points of a version hash to. A published link depends on them: this table only grows."""
LONGEST = 1500


def _observe(side: Side | None) -> Any:
    if side is None:
        return None
    ignored = [{"key": one.key, "kind": one.kind, "nearest": one.nearest} for one in side.ignored]
    return {"state": side.state, "ignored": ignored}


def _same_as_javascript(catalog: Catalog, link: str) -> None:
    expected: dict[str, Any]
    try:
        expected = {"value": catalog.receive(link)}
    except LoadError as error:
        expected = {"refused": error.reason}
    assert ask(catalog.to_json(), [["receive", link]]) == [canonical(expected)]


@pytest.mark.parametrize("path", link_paths(), ids=lambda path: path.stem)
def test_stored_links_keep_their_meaning(catalog: Catalog, path: Path) -> None:
    case = load_link(path)
    expect = case["expect"]
    if "refused" in expect:
        with pytest.raises(LoadError) as refused:
            catalog.receive(case["link"])
        assert refused.value.reason.en == expect["refused"]
        return
    received = catalog.receive(case["link"])
    if "none" in expect:
        assert received is None
        return
    assert received is not None
    assert received.version == expect["version"]
    for side, wanted in ((received.b, expect["b"]), (received.a, expect["a"])):
        found = _observe(side)
        if wanted is not None:
            found["state"] = {name: found["state"][name] for name in wanted["state"]}
        assert found == wanted


def test_javascript_reads_the_stored_links_with_the_same_words(catalog: Catalog) -> None:
    links = [load_link(path)["link"] for path in link_paths()]
    expected = []
    for link in links:
        try:
            expected.append(canonical({"value": catalog.receive(link)}))
        except LoadError as error:
            expected.append(canonical({"refused": error.reason}))
    assert ask(catalog.to_json(), [["receive", link] for link in links]) == expected


def test_published_starting_points_are_never_edited(catalog: Catalog) -> None:
    found = {}
    for version in range(1, catalog.tables.links.version + 1):
        rows = [one.model_dump() for one in catalog.tables.links.baselines if one.version == version]
        found[version] = hashlib.sha256(canonical(rows).encode()).hexdigest()[:32]
    assert found == FROZEN


def test_presets_have_short_links_that_lead_back_to_them(catalog: Catalog) -> None:
    for preset in catalog.tables.presets:
        shared = catalog.share(catalog.preset(preset.id))
        assert len(shared.fragment) < 200
        received = catalog.receive("#" + shared.fragment)
        assert received is not None
        assert received.b == Side(catalog.preset(preset.id), [])


def test_todays_presets_print_as_the_next_version(catalog: Catalog) -> None:
    points = starting_points(catalog, 2)
    assert [point["preset"] for point in points] == [preset.id for preset in catalog.tables.presets]
    rows = [*(one.model_dump() for one in catalog.tables.links.baselines), *points]
    later = _with_links(catalog, {"version": 2, "baselines": rows})
    assert later.share(later.preset("scale")).fragment == "lab=2;scale"


def test_private_choices_and_words_never_travel(catalog: Catalog) -> None:
    private = [choice.name for choice in catalog.tables.fields if not choice.share]
    assert private == [
        "image", "queueDir", "queueRun", "declaration", "ib", "draft", "hf", "train", "data", "save", "megatron",
        "endpoints", "shared", "local", "generate", "reward",
    ]  # fmt: skip
    state = catalog.defaults() | {name: f"/secret/{name}" for name in private} | {"mambaRatio": "/secret/ratio"}
    shared = catalog.share(state, state)
    assert "secret" not in shared.fragment
    assert shared.fragment == "lab=1;first&lab-a=1;first"
    in_order = [choice.name for choice in catalog.tables.fields if choice.name in (*private, "mambaRatio")]
    assert shared.withheld == shared.withheld_a == in_order


def test_withheld_names_exactly_what_the_reader_will_not_see(catalog: Catalog) -> None:
    state = catalog.change(catalog.preset("agent"), "queueDir", "/mnt/queue").state
    state = catalog.change(state, "ib", "mlx5_0").state
    shared = catalog.share(state)
    received = catalog.receive(shared.fragment)
    assert received is not None
    assert shared.withheld == ["queueDir", "ib"]
    assert received.b.state == state | {"queueDir": "", "ib": ""}


def test_the_longest_link_is_short(catalog: Catalog) -> None:
    state: dict[str, Any] = catalog.defaults()
    for choice in catalog.tables.fields:
        if choice.type == "enum":
            state[choice.name] = max((one.value for one in choice.values), key=len)
        elif choice.type == "int":
            state[choice.name] = choice.maximum
        elif choice.type == "bool":
            state[choice.name] = False
    state["mambaRatio"] = "1" * 32 + "." + "1" * 32 + "e+10"
    fragment = catalog.share(state, state).fragment
    assert len(fragment.split("&")[0]) < LONGEST / 2
    assert len(fragment) < LONGEST
    assert quote(fragment, safe="=;&%.-_~") == fragment


def _with_links(catalog: Catalog, links: dict[str, Any]) -> Catalog:
    tables = replace(catalog.tables, links=LinksFile.model_validate(links))
    assert list(check_links(tables, Place("links.yaml", {}))) == []
    return Catalog(tables)


def test_migrations_bring_old_links_here_step_by_step(catalog: Catalog) -> None:
    new = catalog.preset("first")
    shareable = {choice.name: new[choice.name] for choice in catalog.tables.fields if choice.share}
    before_three = {key: value for key, value in shareable.items() if key not in ("transport", "kv")}
    later = _with_links(
        catalog,
        {
            "version": 3,
            "baselines": [
                {"version": 1, "preset": "start", "values": {**before_three, "sync": "broadcast", "colour": "red"}},
                {"version": 2, "preset": "start", "values": {**before_three, "weights": "broadcast"}},
                {"version": 3, "preset": "first", "values": shareable},
            ],
            "migrations": [
                {"from": 1, "rename": {"sync": "weights"}, "drop": ["colour"]},
                {
                    "from": 2,
                    "values": {"weights": {"broadcast": "nccl", "files": "disk"}},
                    "rename": {"weights": "transport"},
                    "set": {"kv": "fp8"},
                },
            ],
        },
    )
    wanted = {
        "lab=1;start;sync=files;layout=external;colour=blue": {"layout": "external", "transport": "disk", "kv": "fp8"},
        "lab=1;start;layout=external": {"layout": "external", "transport": "nccl", "kv": "fp8"},
        "lab=2;start;weights=files": {"transport": "disk", "kv": "fp8"},
        "lab=3;first;transport=disk": {"transport": "disk", "kv": "auto"},
        "experiment=" + quote('{"model":"flash","transport":"disk"}'): {"transport": "disk", "kv": "fp8"},
    }
    for link, values in wanted.items():
        received = later.receive(link)
        assert received is not None
        assert received.b.ignored == []
        assert received.b.state == {**new, **values}, link
        _same_as_javascript(later, link)
    with pytest.raises(LoadError, match="Links of version 1 have no starting point named first; there are: start"):
        later.receive("lab=1;first")
    assert later.share(new).fragment == "lab=3;first"


def test_mistakes_in_the_data_are_named(catalog: Catalog) -> None:
    rows = [{"version": 1, "preset": "first", "values": {"layuot": "separate"}}]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"version": 1, "baselines": rows}, "layuot is no shareable choice; did you mean layout?"),
        ({"version": 1, "baselines": [{**rows[0], "values": {"hf": "/x"}}]}, "hf is no shareable choice"),
        ({"version": 1, "baselines": [{**rows[0], "values": {"nodes": 0}}]}, "nodes is 0; the limits are 1 to 512."),
        ({"version": 1, "baselines": [{**rows[0], "values": {"mambaRatio": "0.9"}}]}, "holds no text"),
        ({"version": 2, "baselines": [{**rows[0], "values": {}}]}, "version 2 has no starting point"),
        ({"version": 1, "baselines": [{**rows[0], "version": 2, "values": {}}]}, "the newest version is 1"),
        ({"version": 1, "baselines": [{**rows[0], "values": {}}] * 2}, "has the starting point first twice"),
        (
            {"version": 1, "baselines": [{**rows[0], "values": {}}], "migrations": [{"from": 1}]},
            "there is no version 2",
        ),
    ]
    for links, message in cases:
        tables = replace(catalog.tables, links=LinksFile.model_validate(links))
        found = list(check_links(tables, Place("links.yaml", {})))
        assert any(message in one for one in found), (message, found)


def test_a_wrong_file_stops_the_catalogue_with_its_line(catalog: Catalog, tmp_path: Path) -> None:
    import shutil

    from slime.experiment import load_catalog
    from slime.experiment.facts import default_root

    root = tmp_path / "recipes"
    shutil.copytree(default_root(), root)
    path = root / "experiment" / "links.yaml"
    text = path.read_text(encoding="utf-8").replace("nodes: 32,", "nodes: 3200,")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError) as error:
        load_catalog(root)
    line = next(number for number, one in enumerate(text.split("\n"), 1) if "nodes: 3200" in one)
    assert str(error.value).startswith(
        f"recipes/experiment/links.yaml:{line}: baselines.2.values.nodes: nodes is 3200;"
    )


def test_random_and_damaged_links_do_no_harm(catalog: Catalog) -> None:
    """Stored links cut, spliced and sprinkled with foreign characters: an answer in words, the same one twice."""
    dice = random.Random(7)
    seeds = [load_link(path)["link"] for path in link_paths()]
    sprinkle = [
        "%",
        "%00",
        "%E2%80%AE",
        ";",
        "=",
        "&",
        "#",
        "\u202e",
        "\ud800",
        "😀",
        "\x00",
        "lab=",
        "1;",
        "__proto__",
        "9" * 400,
    ]
    links = []
    for _ in range(2000):
        link = dice.choice(seeds)
        for _ in range(dice.randint(1, 4)):
            at, width = dice.randint(0, len(link)), dice.randint(0, 6)
            link = link[:at] + dice.choice([*sprinkle, "", dice.choice(seeds)]) + link[at + width :]
        links.append(link)
    expected = []
    for link in links:
        try:
            received = catalog.receive(link)
        except LoadError as error:
            expected.append(canonical({"refused": error.reason}))
            continue
        expected.append(canonical({"value": received}))
        for side in () if received is None else (received.b, received.a):
            if side is not None:
                assert catalog.sanitise(side.state).state == side.state
    assert ask(catalog.to_json(), [["receive", link] for link in links]) == expected
