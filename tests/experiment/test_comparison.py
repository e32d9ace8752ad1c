"""A against B: differences with what they follow from, lines, findings and GPUs; the same in JavaScript."""

from __future__ import annotations

from slime.experiment import Catalog
from slime.experiment.comparison import Comparison, Difference, differences

from .twin import ask, canonical


def _found(comparison: Comparison) -> dict[str, Difference]:
    return {one.field: one for step in comparison.steps for one in step.differences}


def test_equal_experiments_have_no_difference(catalog: Catalog) -> None:
    state = catalog.preset("agent")
    comparison = catalog.compare(state, dict(state))
    assert (comparison.steps, comparison.lines) == ([], [])
    assert all(one.same for one in comparison.files)
    assert all(pair.a == pair.b for pair in comparison.findings)
    assert comparison.totals.a == comparison.totals.b


def test_async_brings_separate_gpus_with_it(catalog: Catalog) -> None:
    a = catalog.defaults()
    b = catalog.change(a, "schedule", "async").state
    comparison = catalog.compare(a, b)
    found = _found(comparison)
    assert [step.step for step in comparison.steps] == ["placement"]
    assert list(found) == ["layout", "schedule"]
    assert (found["layout"].follows, found["schedule"].follows) == ("schedule", None)
    assert found["layout"].because is not None
    assert "separate GPUs" in found["layout"].because.en
    assert (found["layout"].shown_a.en, found["layout"].shown_b.en) == ("Colocated", "Disaggregated")
    assert (comparison.totals.a.ray_gpus, comparison.totals.b.ray_gpus) == (8, 16)
    lines = {(one.part, one.kind, one.name) for one in comparison.lines}
    assert ("train", "removed", "--colocate") in lines
    assert ("train", "added", "--rollout-function-path") in lines
    assert [pair.id for pair in comparison.findings if pair.a is None and pair.severity == "note"] == ["N05"]


def test_back_to_colocated_brings_synchronous_with_it(catalog: Catalog) -> None:
    a = catalog.change(catalog.defaults(), "schedule", "async").state
    b = catalog.change(a, "layout", "colocate").state
    found = _found(catalog.compare(a, b))
    assert (found["layout"].follows, found["schedule"].follows) == (None, "layout")


def test_what_a_model_brings_follows_the_model_and_what_was_edited_after_it_does_not(catalog: Catalog) -> None:
    a = catalog.defaults()
    b = catalog.change(a, "model", "glm-5.3").state
    b = catalog.change(b, "prefill", 128).state
    found = _found(catalog.compare(a, b))
    assert found["model"].follows is None
    assert found["prefill"].follows is None
    followers = [name for name, one in found.items() if one.follows == "model"]
    assert followers == ["nodes", "rollout", "precision", "kv", "specSteps", "hf", "train"]
    changed = {one.name: (one.a, one.b) for one in catalog.compare(a, b).lines if one.part == "train"}
    assert changed["--expert-model-parallel-size"] == (
        "--expert-model-parallel-size 4",
        "--expert-model-parallel-size 32",
    )


def test_private_choices_are_marked_and_texts_are_shown(catalog: Catalog) -> None:
    a = catalog.defaults()
    b = catalog.change(a, "ib", "mlx5_0").state
    (one,) = _found(catalog.compare(a, b)).values()
    assert one.private
    assert (one.shown_a.en, one.shown_b.en) == ("(empty)", "mlx5_0")


def test_findings_that_only_one_side_has(catalog: Catalog) -> None:
    a = catalog.change(catalog.defaults(), "straw", True).state
    b = catalog.change(catalog.defaults(), "task", "custom").state
    pairs = [pair for pair in catalog.compare(a, b).findings if pair.severity == "error"]
    only_b = [pair.id for pair in pairs if pair.a is None]
    only_a = [pair.id for pair in pairs if pair.b is None]
    assert sorted(only_b) == sorted(catalog.validate(b).ids("error"))
    assert sorted(only_a) == sorted(catalog.validate(a).ids("error"))


def test_serving_reference_lines_and_files(catalog: Catalog) -> None:
    a = catalog.defaults()
    b = catalog.change(a, "layout", "external").state
    comparison = catalog.compare(a, b)
    files = {one.name: (one.in_a, one.in_b, one.same) for one in comparison.files}
    assert files == {"experiment.sh": (True, True, False), "serving-reference.sh": (False, True, False)}
    assert {one.kind for one in comparison.lines if one.part == "regular"} == {"added"}


def test_restoring_is_one_step_there_and_back(catalog: Catalog) -> None:
    a, b = catalog.preset("first"), catalog.preset("agent")
    there = differences(catalog.tables, b, a)
    assert {one.field: one.after for one in there} == {one.field: a[one.field] for one in there}
    assert {**b, **{one.field: one.after for one in there}} == a


def test_every_pair_of_presets_is_the_same_in_javascript(catalog: Catalog) -> None:
    presets = [catalog.preset(one.id) for one in catalog.tables.presets]
    pairs = [(a, b) for a in presets for b in presets]
    expected = [canonical({"value": catalog.compare(a, b)}) for a, b in pairs]
    assert ask(catalog.to_json(), [["compare", a, b] for a, b in pairs]) == expected
