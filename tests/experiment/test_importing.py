"""Loading JSON: exports of both schemas and bare choices; refusals with the line; hostile texts. In both languages."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from slime.experiment import Catalog, LoadError
from slime.experiment.json_text import MAXIMUM_BYTES, MAXIMUM_DEPTH, read_json

from .corpus import PROVENANCE
from .twin import ask, canonical


def _answer(catalog: Catalog, text: str) -> str:
    try:
        return canonical({"value": catalog.load(text)})
    except LoadError as error:
        return canonical({"refused": error.reason})


def _same_in_javascript(catalog: Catalog, texts: list[str]) -> list[str]:
    expected = [_answer(catalog, text) for text in texts]
    assert ask(catalog.to_json(), [["load", text] for text in texts]) == expected
    return expected


def test_an_export_comes_back_whole_and_its_claims_are_not_used(catalog: Catalog) -> None:
    state = catalog.change(catalog.preset("agent"), "queueDir", "/mnt/队列").state
    text = catalog.artifacts(state, PROVENANCE)["experiment.json"]
    record = json.loads(text)
    record["validation"] = {"errors": [], "gpu": "validated"}
    record["provenance"]["commit"] = "f" * 40
    for one in (text, json.dumps(record), "\ufeff" + json.dumps(record, indent=1).replace("\n", "\r\n")):
        loaded = catalog.load(one)
        assert (loaded.state, loaded.ignored, loaded.schema) == (state, [], 2)
        assert loaded.unused == ["generator", "model", "provenance", "validation"]
        _same_in_javascript(catalog, [one])


def test_an_earlier_export_and_bare_choices(catalog: Catalog) -> None:
    choices = {"model": "glm5", "step": 3, "layout": "separate", "rollout": 256, "layuot": 1, "nodes": "32"}
    first = catalog.load(json.dumps({"schema": 1, "choices": choices, "counts": {"total": 8}}))
    bare = catalog.load(json.dumps(choices))
    assert first.state == bare.state
    assert (first.state["model"], first.state["layout"], first.state["precision"]) == ("glm-5.3", "separate", "fp8")
    assert [(one.key, one.kind, one.nearest) for one in first.ignored] == [
        ("nodes", "invalid", None),
        ("layuot", "unknown", "layout"),
        ("step", "retired", None),
    ]
    assert (first.schema, first.unused) == (1, ["counts"])
    assert (bare.schema, bare.unused, bare.ignored) == (None, [], first.ignored)


REFUSED: list[tuple[str, str]] = [
    ("", "The JSON stops in line 1 before it is complete."),
    (" \n ", "The JSON stops in line 2 before it is complete."),
    ('{"nodes": 2', "The JSON stops in line 1 before it is complete."),
    ('{"nodes":\n2,}', "Line 2 is no JSON, from here on: }"),
    ('{\n"nodes": 2\n} {}', "Line 3 is no JSON, from here on: {}"),
    ("model: tiny", "Line 1 is no JSON, from here on: model: tiny"),
    ("{'nodes': 2}", "Line 1 is no JSON, from here on: 'nodes': 2}"),
    ('{"nodes": NaN}', "Line 1 is no JSON, from here on: NaN}"),
    ('{"nodes": 02}', "Line 1 is no JSON, from here on: 2}"),
    ('{"nodes": 2} // fine', "Line 1 is no JSON, from here on: // fine"),
    ('{"hf": "a\nb"}', 'Line 1 is no JSON, from here on: "ab"}'),
    ('{"hf": "\\x41"}', 'Line 1 is no JSON, from here on: "\\x41"}'),
    ("[1, 2]", "An experiment is a mapping of choice names to values; this is a list."),
    ('"nodes"', "An experiment is a mapping of choice names to values; this is text."),
    ("null", "An experiment is a mapping of choice names to values; this is null."),
    ("{}", "None of the keys is a choice of an experiment, such as model or layout."),
    ('{"a": 1}', "None of the keys is a choice of an experiment, such as model or layout."),
    ('{"schema": 1, "choices": {}}', "None of the keys is a choice of an experiment, such as model or layout."),
    ('{"schema": 2}', "It has schema and no choices; the choices of an experiment.json stand under that key."),
    ('{"schema": 2, "choises": {"nodes": 2}}', "It has schema and no choices; is choises a misspelling?"),
    ('{"schema": 2, "choices": null}', "An experiment is a mapping of choice names to values; this is null."),
    ('{"schema": 2, "choices": [1]}', "An experiment is a mapping of choice names to values; this is a list."),
    ('{"schema": 3, "choices": {"nodes": 2}}', "The schema of this experiment.json is 3; 1 and 2 can be read here."),
    ('{"schema": true, "nodes": 2}', "The schema of this experiment.json is true or false; 1 and 2 can be read here."),
    ('{"nodes": 2,\n"nodes": 3}', "The key nodes stands twice, again in line 2; which one counts is unclear."),
    ('{"nodes": 2, "\\u006eodes": 3}', "The key nodes stands twice, again in line 1; which one counts is unclear."),
]


def test_what_is_no_experiment_is_refused_with_the_reason(catalog: Catalog) -> None:
    for text, reason in REFUSED:
        with pytest.raises(LoadError) as error:
            catalog.load(text)
        assert error.value.reason.en == reason, text
        assert error.value.reason.zh
    _same_in_javascript(catalog, [text for text, _ in REFUSED])


def test_size_depth_and_number_of_keys_are_limited(catalog: Catalog) -> None:
    fits = json.dumps({"nodes": 2, "x": "x" * (MAXIMUM_BYTES - 21)})
    assert len(fits) == MAXIMUM_BYTES
    assert catalog.load(fits).state["nodes"] == 2
    deep = "[" * (MAXIMUM_DEPTH - 1) + "]" * (MAXIMUM_DEPTH - 1)
    assert catalog.load(f'{{"nodes": 2, "x": {deep}}}').state["nodes"] == 2
    texts = {
        fits + " ": "larger than 262144 bytes",
        json.dumps({"x": "字" * 90_000}, ensure_ascii=False): "larger than 262144 bytes",
        f'{{"nodes": 2, "x": [{deep}]}}': "nested deeper than 32 levels",
        "[" * 250_000: "nested deeper than 32 levels",
        '{"a":' * 50_000: "nested deeper than 32 levels",
        json.dumps({"nodes": 2, **{f"key{index}": 1 for index in range(256)}}): "There are 257 keys and at most 256",
    }
    for text, reason in texts.items():
        with pytest.raises(LoadError, match=reason):
            catalog.load(text)
    _same_in_javascript(catalog, [fits, *texts])


def test_thousands_of_foreign_keys_are_counted_not_named(catalog: Catalog) -> None:
    raw = {"nodes": 2, "step": 1, **{f"é{index:05}": 1 for index in range(20_000)}}
    result = catalog.sanitise(raw)
    assert len(result.ignored) == 65
    assert result.ignored[-1].reason.en == "19937 more keys are no choices."
    assert ask(catalog.to_json(), [["sanitise", raw]]) == [canonical({"value": result})]


def test_hostile_values_do_no_harm(catalog: Catalog) -> None:
    texts = [
        '{"__proto__": {"polluted": true}, "constructor": {"prototype": {"x": 1}}, "nodes": 2}',
        '{"schema": 2, "choices": {"__proto__": {"model": "tiny"}, "nodes": 2}, "__proto__": {}}',
        '{"nodes": 1e400, "rollout": -1e400, "prefill": 123456789012345678901234567890, "rounds": 0.5, "response": -0}',
        '{"nodes": 9007199254740993, "rollout": 16.0, "prefill": 1E1, "rounds": -0.0}',
        '{"hf": "\\ud800", "save": "a\\u0000b\\u202ec", "data": "\\u2028x ", "train": "😀"}',
        '{"nodes": [[[[1]]]], "layout": {"a": {"b": 1}}, "pd": null, "kv": true}',
        '{"nodes": 2, "\\u202e\\u0000": 1, "' + "k" * 5000 + '": 1, "10": 1, "9": 1, "é": 1, "😀": 1, "\\ud83d": 1}',
        '{"hf": "' + "x" * 2049 + '", "save": "' + "😀" * 2048 + '"}',
    ]
    answers = _same_in_javascript(catalog, texts)
    for text, answer in zip(texts, answers, strict=True):
        assert '"value"' in answer, text
        state = catalog.load(text).state
        assert set(state) == {choice.name for choice in catalog.tables.fields}
        assert catalog.sanitise(state).state == state


def test_numbers_are_what_javascript_sees() -> None:
    assert read_json("[9007199254740993, 123456789012345, 1.0, -0]") == [9007199254740992.0, 123456789012345, 1.0, 0]
    assert read_json("1" * 5000) == float("inf")


def test_damaged_exports_get_the_same_answer_in_both_languages(catalog: Catalog) -> None:
    """An export cut, spliced and sprinkled with foreign characters."""
    dice = random.Random(11)
    whole = catalog.artifacts(catalog.preset("scale"), PROVENANCE)["experiment.json"]
    bits: list[Any] = [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\",
        "\\u",
        "0",
        "-",
        ".",
        "e",
        "null",
        "\n",
        "\t",
        " ",
        "\x00",
        "\ud800",
        "😀",
        "",
    ]
    texts = []
    for _ in range(1500):
        text = whole if dice.random() < 0.8 else whole[: dice.randint(0, len(whole))]
        for _ in range(dice.randint(1, 3)):
            at, width = dice.randint(0, len(text)), dice.choice([0, 0, 1, 1, 2, 5])
            text = text[:at] + dice.choice(bits) + text[at + width :]
        texts.append(text)
    answers = _same_in_javascript(catalog, texts)
    assert sum('"value"' in answer for answer in answers) > 100
    assert sum('"refused"' in answer for answer in answers) > 500


def test_the_grammar_is_that_of_the_standard_library() -> None:
    """The walk accepts exactly what ``json`` accepts, apart from its extensions and the limits."""
    dice = random.Random(5)
    bits = [
        '"a"',
        '"\\u00e9\\n"',
        "1",
        "-2.5e+3",
        "0",
        "true",
        "null",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        " ",
        "\n",
        "01",
        "1.",
        '"',
    ]
    agreed = 0
    for _ in range(30_000):
        text = "".join(dice.choice(bits) for _ in range(dice.randint(1, 9)))
        try:
            wanted: Any = json.loads(text, object_pairs_hook=lambda pairs: pairs)
        except ValueError:
            wanted = ValueError
        try:
            read_json(text)
        except LoadError as error:
            assert wanted is ValueError or "twice" in str(error), text
        else:
            assert wanted is not ValueError, text
            agreed += 1
    assert agreed > 500
