"""Completion for bash and zsh: a script made from what the commands say of themselves, so that it never asks Python."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from slime.config import REGISTRY, Flag
from slime.config.helptext import ALL
from slime.config.paths import takes_path
from slime.config.rule import LEVELS

Shell = Literal["bash", "zsh"]
SHELLS: tuple[Shell, ...] = ("bash", "zsh")

# What stands for "complete the names of files" among the candidates; no value of a flag looks like it.
FILES = "__files__"


@dataclass(frozen=True)
class Option:
    """One flag as the shell sees it: how many words it takes, and which."""

    name: str
    takes: Literal["nothing", "one", "many"] = "one"
    values: tuple[str, ...] = ()

    @classmethod
    def files(cls, name: str) -> Option:
        """A flag that takes the name of a file or folder."""
        return cls(name, "one", (FILES,))


@dataclass(frozen=True)
class Words:
    """What may follow a command: its options, its own commands, values without a flag."""

    options: tuple[Option, ...] = ()
    commands: Mapping[str, Words] = field(default_factory=dict)
    values: tuple[str, ...] = ()


def registry_words(*, check: bool) -> Words:
    """The flags of `slime train` that run, with the values that run; with those of `slime check` if asked."""
    options = [_registry_option(one) for one in REGISTRY.values() if one.runs]
    options += [Option.files("--config"), Option("--help", "one", () if check else ALL)]
    if check:
        options += [Option("--level", "many", LEVELS), Option("--json", "nothing")]
    return Words(tuple(options))


def _registry_option(one: Flag) -> Option:
    if one.switch:
        return Option(one.name, "nothing")
    values = tuple(value for value in one.choices or one.only or () if not one.planned(value))
    if takes_path(one):
        values = (FILES,)
    return Option(one.name, "many" if one.many else "one", values)


def parser_words(parser: argparse.ArgumentParser) -> Words:
    """The same of an argparse parser, with its subcommands."""
    options: list[Option] = []
    commands: dict[str, Words] = {}
    values: tuple[str, ...] = ()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = {name: parser_words(inner) for name, inner in action.choices.items()}
        elif action.option_strings:
            takes: Literal["nothing", "one"] = "nothing" if action.nargs == 0 else "one"
            options += [Option(name, takes, _action_values(action)) for name in action.option_strings]
        else:
            values = _action_values(action)
    return Words(tuple(options), commands, values)


def _action_values(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(str(one) for one in action.choices)
    # A parser that reads a Path, or shows FILE or DIR in its help, wants the name of a file.
    shown = str(action.metavar or action.dest).lower()
    is_file = action.type is Path or shown.startswith(("file", "dir", "folder")) or shown in ("a", "b")
    return (FILES,) if is_file and action.nargs != 0 else ()


def script(shell: Shell, commands: Mapping[str, Words]) -> str:
    """The script to be read by the shell.

    Args:
        shell: which one.
        commands: what may follow each command of `slime`.
    """
    tables = "\n".join(_tables(commands))
    first = "#compdef slime\n" if shell == "zsh" else ""
    title = f"# Completion of slime for {shell}, made by: slime completion {shell}\n"
    return "\n".join([first + title, tables, _SHARED, _FRONT[shell]])


def _tables(commands: Mapping[str, Words]) -> Iterator[str]:
    """Shell functions that print candidates: commands, flags of a command, how a flag takes values, its values."""
    paths = dict(_paths(commands))
    yield from _function(
        "_slime_commands", [("", tuple(commands)), *((p, tuple(w.commands)) for p, w in paths.items())]
    )
    yield from _function("_slime_flags", [(p, tuple(one.name for one in w.options)) for p, w in paths.items()])
    takes = [(f"{p} {one.name}", (one.takes,)) for p, w in paths.items() for one in w.options if one.takes != "one"]
    yield from _function("_slime_takes", takes)
    values = [(f"{p} {one.name}", one.values) for p, w in paths.items() for one in w.options]
    yield from _function("_slime_values", [*values, *((p, w.values) for p, w in paths.items())])


def _paths(commands: Mapping[str, Words], above: str = "") -> Iterator[tuple[str, Words]]:
    for name, words in commands.items():
        path = f"{above} {name}".strip()
        yield path, words
        yield from _paths(words.commands, path)


def _function(name: str, cases: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """A function that prints, one a line, the words of the case that its first argument names."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for pattern, words in cases:
        if words:
            merged.setdefault(words, []).append(f'"{pattern}"')
    yield f"{name}() {{"
    yield '  case "$1" in'
    for words, patterns in merged.items():
        quoted = " ".join(f"'{word}'" for word in words)
        yield f"    {' | '.join(patterns)}) printf '%s\\n' {quoted} ;;"
    yield "  esac"
    yield "}\n"


# Understood by bash and by zsh. `_slime_candidates` gets the words after `slime` up to the cursor and prints what may
# stand in the place of the last one.
_SHARED = """\
_slime_candidates() {
  local place="" flag="" given=0 word="" takes=""
  while [ $# -gt 1 ]; do
    word=$1
    shift
    case $word in
      --*=*) flag="" ;;
      -*)
        flag=$word
        given=0
        ;;
      *)
        if [ -n "$flag" ]; then
          given=$((given + 1))
        elif _slime_commands "$place" | grep -qxF -e "$word"; then
          place="${place:+$place }$word"
        fi
        ;;
    esac
    takes=$(_slime_takes "$place $flag")
    case "${takes:-one} $given" in
      "nothing "* | "one 1") flag="" ;;
    esac
  done
  word=$1
  case $word in
    --*=*) _slime_values "$place ${word%%=*}" ;;
    -*) _slime_flags "$place" ;;
    *)
      if [ -n "$flag" ]; then
        _slime_values "$place $flag"
        [ "$given" -eq 0 ] && return
      fi
      _slime_commands "$place"
      [ -n "$flag" ] || _slime_values "$place"
      [ -n "$place" ] && _slime_flags "$place"
      ;;
  esac
}
"""

_BASH = """\
_slime() {
  local -a words=()
  local index word current candidates
  local IFS=$' \\t\\n'
  # Readline splits --flag=value at the equals sign; here it is one word again.
  for ((index = 1; index <= COMP_CWORD; index++)); do
    word=${COMP_WORDS[index]}
    if [[ $word == = && ${#words[@]} -gt 0 ]]; then
      words[${#words[@]} - 1]+="="
    elif [[ ${#words[@]} -gt 0 && ${words[${#words[@]} - 1]} == --*= ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
  done
  current=${words[${#words[@]} - 1]}
  [[ $current == --*=* ]] && current=${current#*=}
  candidates=$(_slime_candidates "${words[@]}")
  IFS=$'\\n'
  mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$current")
  if [[ $'\\n'"$candidates"$'\\n' == *$'\\n'@FILES@$'\\n'* ]]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}
complete -F _slime slime
"""

_ZSH = """\
_slime() {
  local -a found
  found=(${(f)"$(_slime_candidates "${(@)words[2,CURRENT]}")"})
  compset -P '--*='
  if (( ${found[(I)@FILES@]} )); then
    _files
  else
    compadd -- $found
  fi
}
compdef _slime slime
"""

_FRONT: Mapping[Shell, str] = {
    "bash": _BASH.replace("@FILES@", FILES),
    "zsh": _ZSH.replace("@FILES@", FILES),
}
