"""`slime ...`: finds the command and hands the rest of the line to it. Nothing heavy is imported too early."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from slime.arguments import TeachingParser


@dataclass(frozen=True)
class Command:
    """One word after `slime`: what it does, and the function that gets the words after it."""

    summary: str
    run: Callable[[Sequence[str]], int]


def _with_parser(name: str, module: ModuleType, words: Sequence[str]) -> int:
    """Run a command that describes its arguments with `add_parser` and does its work in `run`."""
    parser = TeachingParser(prog="slime")
    module.add_parser(parser.add_subparsers())
    return int(module.run(parser.parse_args([name, *words])))


def _train(words: Sequence[str]) -> int:
    from slime.train import main as train

    return train(words)


def _convert(words: Sequence[str]) -> int:
    from slime.weights import command

    return _with_parser("convert", command, words)


def _tiny(words: Sequence[str]) -> int:
    from slime.tiny import command

    return _with_parser("tiny", command, words)


def _grade(words: Sequence[str]) -> int:
    from slime.rewards import command

    return _with_parser("grade", command, words)


def _check(words: Sequence[str]) -> int:
    from slime.config.command import check
    from slime.train import recipe_dimensions

    return check(words, recipe_dimensions)


def _lab(words: Sequence[str]) -> int:
    from slime.experiment import command

    return _with_parser("lab", command, words)


COMMANDS: dict[str, Command] = {
    "train": Command("run an experiment: generate, train, synchronise, evaluate", _train),
    "check": Command("find what is wrong with a run before it starts", _check),
    "convert": Command("turn a checkpoint from Hugging Face to Megatron or back", _convert),
    "grade": Command("grade responses in a file", _grade),
    "tiny": Command("make the small model, its tokenizer and its data", _tiny),
    "lab": Command("check and render experiments of the lab", _lab),
}


def usage() -> str:
    """The help text of `slime` itself."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: slime COMMAND ...", "", "commands:", *lines, "", "slime COMMAND --help explains each."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 not understood or refused before it began."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        print(usage(), file=sys.stderr)
        return 2
    name, rest = words[0], words[1:]
    if name in ("-h", "--help", "help"):
        print(usage())
        return 0
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `slime {near[0]}`?" if near else f"the commands are {', '.join(COMMANDS)}"
        print(f"slime: there is no command {name!r}; {hint}", file=sys.stderr)
        return 2
    return command.run(rest)


if __name__ == "__main__":
    sys.exit(main())
