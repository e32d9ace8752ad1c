"""A misspelt flag of the small commands is answered with the nearest one."""

from __future__ import annotations

import pytest

from slime.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["convert", "hf-to-megatron", "--hf-chekpoint", "x"],
            "unknown flag --hf-chekpoint; the nearest is --hf-checkpoint",
        ),
        (["convert", "megatron-to-hf", "--lod=x"], "unknown flag --lod; the nearest is --load"),
        (["tiny", "--output", "x", "--se", "1"], "unknown flag --se; "),
        (["tiny", "--zzzz"], "unknown flag --zzzz; known: --force, --help, --output, --seed, -h"),
        (["tiny"], "the following arguments are required: --output"),
    ],
)
def test_unknown_flags(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
