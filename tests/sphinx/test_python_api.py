"""What the page of the Python API says, read from the source, against the objects themselves."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sphinx_slime_lab.python_api import NameNotFoundError, Section, find, read_docstring

PAGE = Path(__file__).resolve().parents[2] / "docs/en/reference/python_api.md"
NAMES = [
    name
    for block in re.findall(r"^```\{slime:api\} (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for name in block.split()
]


@pytest.mark.parametrize("path", NAMES)
def test_signatures_and_members_are_those_of_the_object(path: str) -> None:
    """Parameters in their order, public methods with a docstring, and no argument that does not exist."""
    module, _, name = path.rpartition(".")
    real = getattr(importlib.import_module(module), name)
    found = find(path)
    if inspect.isclass(real):
        public = {one for one, value in vars(real).items() if not one.startswith("_") and inspect.getdoc(value)}
        callables = {one for one in public if callable(getattr(real, one)) or isinstance(vars(real)[one], property)}
        assert {one.name for one in found.members} == callables
        return
    parameters = list(inspect.signature(real).parameters)
    assert re.findall(r"[(,] ?\**(\w+)(?=[:,)=])", found.signature.split(" -> ")[0]) == parameters
    described = {one for section in found.sections if section.title == "Args" for one, _ in section.entries}
    assert {part for names in described for part in re.split(", ", names)} - {"", "Others"} <= set(parameters)


def test_a_docstring_comes_in_parts() -> None:
    text = """Do it.

    A second paragraph
    over two lines.

    Args:
        one, two: of equal length,
            at least 1.
        rest: what is left.

    Returns:
        A number: the sum.

    Raises:
        ValueError: when they differ.
    """
    assert list(read_docstring(text)) == [
        Section("", (("", "Do it."), ("", "A second paragraph over two lines."))),
        Section("Args", (("one, two", "of equal length, at least 1."), ("rest", "what is left."))),
        Section("Returns", (("", "A number: the sum."),)),
        Section("Raises", (("ValueError", "when they differ."),)),
    ]


def test_fields_stand_in_for_attributes_that_nobody_described() -> None:
    assert find("slime.data.sample_types.Status").sections[-1] == Section(
        "Attributes",
        tuple((name.upper(), f"`'{name}'`") for name in ("pending", "completed", "truncated", "aborted", "failed")),
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("slime.data.sample.Sampel", "slime.data.sample has no 'Sampel'; write Sample"),
        ("slime.data.nothing.Sample", "there is no module 'slime.data.nothing'"),
        ("slimy.data.Sample", "there is no package 'slimy'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(path: str, message: str) -> None:
    with pytest.raises(NameNotFoundError, match=f"^{re.escape(message)}$"):
        find(path)


def test_nothing_is_imported() -> None:
    """The docs environment has no torch: the source is read, the modules stay unloaded."""
    code = """
import sys
from sphinx_slime_lab.python_api import find

find("slime.algorithms.losses.reinforce_loss")
find("slime.rollout.context.current")
print(sorted({"torch", "slime.algorithms.losses", "slime.rollout"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
