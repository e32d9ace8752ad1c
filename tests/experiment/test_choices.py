"""Sanitise and change: strict types, one source of model defaults, pure functions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slime.experiment import Catalog, ChoiceError
from slime.experiment.facts import load_facts

MODELS = list(load_facts().launch)


@pytest.mark.parametrize("model", MODELS)
def test_model_defaults_are_the_same_by_every_path(catalog: Catalog, model: str) -> None:
    read = catalog.sanitise({"model": model})
    assert read.ignored == []
    assert read.state == catalog.change(catalog.defaults(), "model", model).state
    legacy = {new: old for old, new in catalog.facts.legacy.items()}
    if model in legacy:
        assert catalog.sanitise({"model": legacy[model]}) == read
    exported = {"schema": 1, "choices": {"model": model}, "validation": {"errors": ["lies"]}, "model": "lies"}
    assert catalog.sanitise(exported) == read


@pytest.mark.parametrize("model", MODELS)
def test_reading_a_state_back_changes_nothing(catalog: Catalog, model: str) -> None:
    state = catalog.sanitise({"model": model, "layout": "separate", "hf": "/a b/'c'"}).state
    again = catalog.sanitise(copy.deepcopy(state))
    assert again.state == state and again.ignored == []
    assert list(again.state) == [choice.name for choice in catalog.tables.fields]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("nodes", "8", "takes an integer, not text"),
        ("nodes", True, "takes an integer, not true or false"),
        ("nodes", 2.5, "not a number that is no integer"),
        ("nodes", 2**60, "not a number outside the exact range"),
        ("nodes", float("inf"), "not a number that is no integer"),
        ("nodes", None, "takes an integer, not null"),
        ("nodes", [5], "takes an integer, not a list"),
        ("nodes", 0, "nodes is 0; the limits are 1 to 512"),
        ("pd", 1, "takes true or false, not an integer"),
        ("pd", "true", "takes true or false, not text"),
        ("layout", "Colocate", "layout has no value Colocate; choose from: colocate, separate, external"),
        ("hf", 3, "takes text, not an integer"),
        ("hf", "x" * 2049, "has 2049 characters; at most 2048"),
        ("hf", "\ud800", "half a surrogate pair"),
        ("model", "__proto__", "model has no value __proto__"),
    ],
)
def test_nothing_is_coerced(catalog: Catalog, field: str, value: Any, reason: str) -> None:
    read = catalog.sanitise({field: value})
    assert read.state == catalog.defaults()
    (ignored,) = read.ignored
    assert (ignored.key, ignored.kind) == (field, "invalid")
    assert reason in ignored.reason.en and ignored.reason.zh
    with pytest.raises(ChoiceError) as caught:
        catalog.change(catalog.defaults(), field, value)
    assert caught.value.reason == ignored.reason and caught.value.field == field


def test_an_integral_number_is_the_integer(catalog: Catalog) -> None:
    state = catalog.sanitise({"nodes": 8.0}).state
    assert state["nodes"] == 8 and type(state["nodes"]) is int


def test_the_nearest_legal_value_is_named(catalog: Catalog) -> None:
    found = {
        one.key: one.nearest for one in catalog.sanitise({"layuot": "x", "layout": "seperate", "nodes": 600}).ignored
    }
    assert found == {"layuot": "layout", "layout": "separate", "nodes": "512"}


@pytest.mark.parametrize("raw", [None, [], "x", 3, True, {"schema": 1}, {"schema": 9, "choices": {"nodes": 2}}])
def test_what_is_no_experiment_gives_the_defaults_and_a_reason(catalog: Catalog, raw: Any) -> None:
    read = catalog.sanitise(raw)
    assert read.state == catalog.defaults()
    assert [one.kind for one in read.ignored] == ["invalid"]


def test_control_characters_leave_a_text_and_that_is_said(catalog: Catalog) -> None:
    read = catalog.sanitise({"hf": " /a\nb\u202ec\x7f\u2028 "})
    assert read.state["hf"] == "/abc"
    assert [(one.key, one.kind) for one in read.ignored] == [("hf", "cleaned")]


def test_a_change_does_not_touch_the_old_state(catalog: Catalog) -> None:
    state = catalog.defaults()
    before = copy.deepcopy(state)
    changed = catalog.change(state, "schedule", "async")
    assert state == before
    assert changed.state["layout"] == "separate"
    assert [(link.field, link.before, link.after) for link in changed.linked] == [("layout", "colocate", "separate")]
    assert changed.linked[0].announce.zh and changed.linked[0].announce.en


def test_an_edit_that_changes_nothing_links_nothing(catalog: Catalog) -> None:
    state = {**catalog.defaults(), "schedule": "async"}
    assert catalog.change(state, "schedule", "async").linked == []


def test_presets_are_legal_and_unknown_ones_are_refused(catalog: Catalog) -> None:
    for preset in catalog.tables.presets:
        assert catalog.sanitise(dict(preset.set)).ignored == []
        assert catalog.sanitise(catalog.preset(preset.id)).ignored == []
    with pytest.raises(ChoiceError, match="first, laptop, scale, agent"):
        catalog.preset("firts")


def test_private_choices_are_not_shared(catalog: Catalog) -> None:
    """The share list is an allow-list: everything that a user types stays off it, but for one number kept as text."""
    shared = {choice.name for choice in catalog.tables.fields if choice.share}
    assert {choice.name for choice in catalog.tables.fields if choice.type == "text"} & shared == {"mambaRatio"}


def test_view_follows_the_state(catalog: Catalog) -> None:
    view = catalog.view(catalog.defaults())
    assert "rollout" not in view.visible and "layout" in view.visible
    tiny = catalog.view(catalog.sanitise({"model": "tiny"}).state)
    assert ("layout", "separate") in [(one.field, one.value) for one in tiny.disabled]
