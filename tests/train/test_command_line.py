"""`slime ...` dispatches without heavy imports, and refuses what it does not know with the nearest name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slime.cli import COMMANDS, main
from slime.train import due

SMALL_RUN = {
    "hf-checkpoint": "x",
    "ref-load": "x",
    "prompt-data": "x",
    "label-key": "y",
    "rm-type": "math",
    "num-rollout": "1",
    "rollout-batch-size": "2",
    "n-samples-per-prompt": "2",
    "rollout-max-response-len": "8",
    "actor-num-gpus-per-node": "1",
    "attention-dropout": "0",
    "hidden-dropout": "0",
}
HEAVY = ("torch", "ray", "megatron", "sglang", "transformers", "aiohttp")


def test_no_command_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    output = capsys.readouterr()
    for name in COMMANDS:
        assert name in output.out and name in output.err


def test_an_unknown_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "did you mean `slime train`?" in capsys.readouterr().err


def test_an_unrelated_word_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyzzy"]) == 2
    assert f"the commands are {', '.join(COMMANDS)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["train", "--help"],
        ["check", "--help"],
        ["train", "--dry-run", "--colocate", *(f"--{name}={value}" for name, value in SMALL_RUN.items())],
    ],
    ids=["help", "train help", "check help", "dry run"],
)
def test_what_only_reads_imports_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys\nfrom slime.cli import main\nstatus = main(sys.argv[1:])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slime", "train", "--rollout-bach-size", "4"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--rollout-bach-size" in done.stderr and "--rollout-batch-size" in done.stderr


@pytest.mark.parametrize(
    ("interval", "round_id", "last", "expected"),
    [
        (None, 9, 10, False),
        (5, 4, 20, True),
        (5, 5, 20, False),
        (5, 9, 20, True),
        (4, 9, 10, True),
        (4, 9, 20, False),
    ],
)
def test_what_is_periodic_happens_on_its_rounds(interval: int | None, round_id: int, last: int, expected: bool) -> None:
    assert due(interval, round_id, last) is expected
