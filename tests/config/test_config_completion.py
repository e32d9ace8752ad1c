"""Completion, asked through real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slime.cli import COMMANDS, main
from slime.config import REGISTRY
from slime.config.paths import FURTHER_PATHS, OWN_PATHS, SHARED_FOLDERS

ASK = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _slime; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "slime.bash"
    done = subprocess.run(
        [sys.executable, "-m", "slime", "completion", "bash"], capture_output=True, text=True, check=True
    )
    path.write_text(done.stdout, encoding="utf-8")
    return path


def ask(script: Path, *words: str, folder: Path | None = None) -> list[str]:
    """What bash would offer in the place of the last word of `slime WORDS`."""
    command = ["bash", "--norc", "-c", ASK, "bash", str(script), "slime", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, timeout=30)
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_are_offered(bash_script: Path) -> None:
    assert ask(bash_script, "") == list(COMMANDS)
    assert ask(bash_script, "comp") == ["completion"]
    assert ask(bash_script, "completion", "") == ["bash", "zsh"]


def test_the_flags_that_run_are_offered_and_no_planned_one(bash_script: Path) -> None:
    offered = set(ask(bash_script, "train", "--"))
    runs = {name for name, one in REGISTRY.items() if one.runs}
    assert offered == runs | {"--config", "--help"}
    assert set(ask(bash_script, "check", "--")) == offered | {"--level", "--json"}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("train", "--devi"), ["--device"]),
        (("train", "--device", ""), ["cpu", "cuda"]),
        (("train", "--device", "cu"), ["cuda"]),
        (("train", "--device=cu"), ["cuda"]),
        (("train", "--device", "="), ["cpu", "cuda"]),
        (("train", "--device", "=", "cp"), ["cpu"]),
        (("train", "--colocate", "--device", "cpu", "--dry-run-j"), ["--dry-run-json"]),
        (("train", "--help", "opt"), ["optimizer"]),
        (("check", "--level", ""), ["cfg", "hf", "data", "host"]),
        (("check", "--level", "cfg", "d"), ["data"]),
        (("lab", "re"), ["render"]),
        (("lab", "check", "--lang", ""), ["en", "zh"]),
        (("convert", "megatron-to-hf", "--loa"), ["--load"]),
        (("train", "--lr", "1"), []),
    ],
)
def test_values_and_subcommands(bash_script: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert ask(bash_script, *words) == offered


@pytest.mark.parametrize(
    "words",
    [("train", "--prompt-data"), ("train", "--config"), ("lab", "check"), ("convert", "hf-to-megatron", "--save")],
)
def test_files_are_offered_where_a_file_is_meant(bash_script: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "rows one.jsonl").touch()
    (tmp_path / "other").touch()
    command = ["bash", "--norc", "-c", ASK, "bash", str(bash_script), "slime", *words, "ro"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "rows one.jsonl\n"


def test_only_values_that_run_are_offered(bash_script: Path) -> None:
    assert REGISTRY["--rollout-data-transport"].choices == ("object-store", "nixl", "straw")
    runs = [one for one in ("object-store", "nixl", "straw") if not REGISTRY.planned("--rollout-data-transport", one)]
    assert ask(bash_script, "train", "--rollout-data-transport", "") == runs


def test_flags_with_files_exist() -> None:
    fields = {one.field for one in REGISTRY.values()}
    assert {*SHARED_FOLDERS, *OWN_PATHS, *FURTHER_PATHS} <= fields


def typed(command: list[str], *keys: str) -> str:
    """What an interactive shell shows while ``keys`` are typed."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", "PS1": "$ "})
    shown = ""
    for part in (*keys, "\x03", "exit\n"):
        os.write(terminal, part.encode())
        end = time.monotonic() + 10
        while time.monotonic() < end and select.select([terminal], [], [], 0.5)[0]:
            try:
                shown += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the shell has ended
                break
    os.close(terminal)
    os.waitpid(child, 0)
    return shown


def test_an_interactive_bash_completes_a_line(bash_script: Path) -> None:
    shown = typed(["bash", "--norc", "-i"], f"source {bash_script}\n", "slime trai\t", "--dev\t", "cu\t")
    assert "slime train --device cuda" in shown


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_an_interactive_zsh_completes_a_line(tmp_path: Path) -> None:
    path = tmp_path / "slime.zsh"
    done = subprocess.run(
        [sys.executable, "-m", "slime", "completion", "zsh"], capture_output=True, text=True, check=True
    )
    path.write_text(done.stdout, encoding="utf-8")
    start = f"autoload -U compinit; compinit -u -D; source {path}\n"
    shown = typed(["zsh", "-f", "-i"], start, "slime trai\t", "--dev\t", "cu\t")
    assert "cuda" in shown and "--device" in shown


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_script_is_clean(bash_script: Path) -> None:
    done = subprocess.run(["shellcheck", "-s", "bash", str(bash_script)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("words", [[], ["fish"], ["bash", "zsh"]])
def test_another_shell_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", *words]) == 2
    assert "name one of bash, zsh" in capsys.readouterr().err


def test_help_tells_how_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--help"]) == 0
    assert "source <(slime completion bash)" in capsys.readouterr().out


def test_a_closed_pipe_is_no_error() -> None:
    command = ["bash", "-c", '"$0" -m slime train --help all | head -1', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
