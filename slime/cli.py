"""`slime ...`: finds the command and hands the rest of the line to it. Nothing heavy is imported too early."""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slime.arguments import TeachingParser

# 128 + SIGPIPE, as a shell reports it.
PIPE_CLOSED = 141


@dataclass(frozen=True)
class Command:
    """One word after `slime`.

    Attributes:
        summary: what it does.
        run: gets the words after it and returns the exit status.
        module: where `add_parser` and `run` are, for a command whose arguments argparse reads.
    """

    summary: str
    run: Callable[[Sequence[str]], int]
    module: str | None = None

    def parser(self, name: str) -> argparse.ArgumentParser:
        """The parser of a command that has a module, as its `add_parser` makes it."""
        whole = TeachingParser(prog="slime")
        commands = whole.add_subparsers()
        importlib.import_module(self.module or "").add_parser(commands)
        parser: argparse.ArgumentParser = commands.choices[name]
        return parser


def _parsed(name: str, summary: str, module: str) -> Command:
    """A command that describes its arguments with `add_parser` and does its work in `run`, both in `module`."""

    def run(words: Sequence[str]) -> int:
        found = importlib.import_module(module)
        parser = TeachingParser(prog="slime")
        found.add_parser(parser.add_subparsers())
        return int(found.run(parser.parse_args([name, *words])))

    return Command(summary, run, module)


def _train(words: Sequence[str]) -> int:
    from slime.train import main as train

    return train(words)


def _check(words: Sequence[str]) -> int:
    from slime.config.command import check
    from slime.train import recipe_dimensions

    return check(words, recipe_dimensions)


def _completion(words: Sequence[str]) -> int:
    from slime.completion import SHELLS, Words, parser_words, registry_words, script

    if list(words) in (["--help"], ["-h"]):
        print(_COMPLETION_USAGE)
        return 0
    if len(words) != 1 or words[0] not in SHELLS:
        given = " ".join(words) or "no shell"
        print(f"slime completion: {given}: name one of {', '.join(SHELLS)}", file=sys.stderr)
        return 2
    described = {name: parser_words(one.parser(name)) for name, one in COMMANDS.items() if one.module}
    own = {"train": registry_words(check=False), "check": registry_words(check=True)}
    own["completion"] = Words(values=SHELLS)
    known = own | described
    print(script(words[0], {name: known[name] for name in COMMANDS}), end="")
    return 0


_COMPLETION_USAGE = """usage: slime completion bash|zsh

Prints a script that completes commands, flags and their values. For the running shell:
    source <(slime completion bash)
For every later one, bash:
    slime completion bash > ~/.local/share/bash-completion/completions/slime
and zsh, with a folder of the fpath:
    slime completion zsh > "${fpath[1]}/_slime"
A new shell reads them.
Exit status: 0 printed, 2 no shell that is known."""

COMMANDS: dict[str, Command] = {
    "train": Command("run an experiment: generate, train, synchronise, evaluate", _train),
    "check": Command("find what is wrong with a run before it starts", _check),
    "convert": _parsed("convert", "convert a checkpoint: Megatron, FP8, INT4, and back", "slime.weights.command"),
    "inspect": _parsed("inspect", "say what a checkpoint is, and whether it is whole", "slime.weights.inspect_command"),
    "engine": _parsed("engine", "check what an engine that runs does and lacks", "slime.sglang.conformance.command"),
    "grade": _parsed("grade", "grade responses in a file", "slime.rewards.command"),
    "hooks": _parsed("hooks", "list hooks and check functions of yours against them", "slime.rollout.hook_command"),
    "tiny": _parsed("tiny", "make the small model, its tokenizer and its data", "slime.tiny.command"),
    "lab": _parsed("lab", "check and render experiments of the lab", "slime.experiment.command"),
    "completion": Command("print the completion script of a shell", _completion),
}


def usage() -> str:
    """The help text of `slime` itself."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    tail = "slime COMMAND --help explains each; slime --version names the versions that are installed."
    return "\n".join(["usage: slime COMMAND ...", "", "commands:", *lines, "", tail])


def versions() -> str:
    """The versions of slime and of what it runs on, as installed; without importing any of them."""
    found = []
    for name in ("slime-rl", "torch", "megatron-core", "sglang", "ray", "transformers"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} is not installed")
    return "\n".join([*found, f"python {platform.python_version()}"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 done, 1 failed, 2 not understood or refused before it began, 130 stopped by a signal,
        141 the reader of its output went away.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        print(usage(), file=sys.stderr)
        return 2
    name, rest = words[0], words[1:]
    if name in ("-h", "--help", "help"):
        print(usage())
        return 0
    if name in ("--version", "-V"):
        print(versions())
        return 0
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `slime {near[0]}`?" if near else f"the commands are {', '.join(COMMANDS)}"
        print(f"slime: there is no command {name!r}; {hint}", file=sys.stderr)
        return 2
    try:
        return command.run(rest)
    except BrokenPipeError:
        # `slime ... | head` closes the pipe; what is still buffered goes nowhere, without a second complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


if __name__ == "__main__":
    sys.exit(main())
