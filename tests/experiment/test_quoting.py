"""One quote function per language: what a user typed reaches a program as that text and nothing else."""

from __future__ import annotations

import random
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slime.experiment.quoting import quote, word

from .corpus import load_table

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize("case", load_table("quoting"), ids=lambda case: repr(case["text"]))
def test_words(case: dict[str, Any]) -> None:
    assert quote(case["text"]) == case["word"]


@given(TEXTS)
def test_shlex_reads_the_text_back(text: str) -> None:
    assert shlex.split(quote(text)) == [text]
    assert shlex.split(word(text, literal=False)) == [text]


def test_bash_passes_the_texts_on_literally() -> None:
    """Real bash, with globs that would match and commands that would run."""
    dice = random.Random(20240604)
    pieces = [
        "'",
        '"',
        "$(echo X)",
        "`echo X`",
        "$HOME",
        "\\",
        "*",
        "~",
        "!",
        "\n",
        " ",
        "-",
        "中文",
        "😀",
        "a",
        "#",
        ";",
        "|",
    ]
    texts = ["".join(dice.choices(pieces, k=dice.randint(0, 8))) for _ in range(400)]
    script = "printf '%s\\0' " + " ".join(word(text, literal=dice.random() < 0.5) for text in texts)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, cwd="/")
    assert done.stdout.decode().split("\0")[:-1] == texts


def test_integers_and_safe_words_stay_readable() -> None:
    assert word(8, literal=True) == "8"
    assert word("1e-6", literal=False) == "1e-6"
    assert word("1e-6", literal=True) == "'1e-6'"
    assert word("", literal=False) == "''"
