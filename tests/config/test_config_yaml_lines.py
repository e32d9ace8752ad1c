"""YAML with lines: scalars of the 1.2 core schema, the line of every key, and what is refused."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slime.config.yaml_lines import MAXIMUM_CHARACTERS, YamlError, load_yaml_with_lines, nearest_line


def test_scalars_follow_the_core_schema() -> None:
    text = "a: on\nb: 010\nc: 1e-6\nd: '1'\ne: 2020-01-01\nf: ~\ng:\nh: true\ni: 1:30\nj: -7\nk: .5\nl: 0x10\n"
    data, _ = load_yaml_with_lines(text)
    assert data == {
        "a": "on", "b": 10, "c": 1e-6, "d": "1", "e": "2020-01-01", "f": None, "g": None, "h": True,
        "i": "1:30", "j": -7, "k": 0.5, "l": "0x10",
    }  # fmt: skip


def test_every_key_and_item_has_its_line() -> None:
    data, lines = load_yaml_with_lines("# note\na: 1\nb:\n  - x\n  - c: |\n      two\n      lines\n    d: 3\n")
    assert data == {"a": 1, "b": ["x", {"c": "two\nlines\n", "d": 3}]}
    assert lines == {
        (): 1, ("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 1): 4, ("b", 1, "c"): 4, ("b", 1, "d"): 7,
    }  # fmt: skip
    assert nearest_line(lines, ("b", 1, "missing", "deeper")) == 4
    assert nearest_line(lines, ("missing",)) == 1


def test_empty_text_is_none() -> None:
    assert load_yaml_with_lines("") == (None, {(): 0})
    assert load_yaml_with_lines("# only a comment\n")[0] is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 2, "the key a stands twice; it was first on line 1"),
        ("a:\n  b: 1\n  b: 1\n", 2, "the key b stands twice; it was first on line 2"),
        ("a: 1\n2: b\n", 1, "the key 2 is not text; put it in quotes"),
        ("? [1]\n: 2\n", 0, "the key a list or mapping is not text; put it in quotes"),
        ("a: 1\nb: &x 1\n", 1, "the anchor &x is not read here; write the value out"),
        ("a: *x\n", 0, "the alias *x is not read here; write the value out"),
        (
            "a: !!python/object:os.system x\n",
            0,
            "the tag tag:yaml.org,2002:python/object:os.system is not read here; plain values are enough",
        ),
        (
            "a: 1\n---\nb: 2\n",
            1,
            "not valid YAML: expected a single document in the stream, but found another document",
        ),
        ("a: 1\nb: \x07\n", 1, "the character U+0007 is not allowed in YAML"),
        ("a: 1e999\n", 0, "the number 1e999 is too large"),
        ("a: " + "1" * 31, 0, "the number has 31 digits; at most 30 are read"),
        ("[" * 41, 0, "more than 40 levels of nesting"),
        ("a" * (MAXIMUM_CHARACTERS + 1), 0, "the text has 1000001 characters; at most 1000000 are read"),
    ],
)
def test_refused(text: str, line: int, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml_with_lines(text)
    assert (caught.value.line, caught.value.message) == (line, message)
    assert re.search("[\u4e00-\u9fff]", caught.value.message_zh)


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(YamlError, match=r"^line 3: not valid YAML: "):
        load_yaml_with_lines("a: 1\nb: [1, 2\n")


# YAML 1.1 takes 1e5 and 08 for text and 1.2 for numbers, so PyYAML writes such texts without quotes: left out here.
TEXT = st.text(max_size=12).filter(lambda text: not re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", text))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_reads_back_what_yaml_writes(value: object) -> None:
    """PyYAML quotes what YAML 1.1 would misread, so the rest of its output means the same in both schemas."""
    assert load_yaml_with_lines(yaml.safe_dump(value, default_flow_style=False))[0] == value
