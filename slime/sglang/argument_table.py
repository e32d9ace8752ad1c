"""The server's arguments, as the installed SGLang's own parser declares them.

``slime/config/sglang_arguments.json`` is made by this module, so that the flags `--sglang-*` are known without an
import of SGLang, which takes seconds and needs torch. After another SGLang is installed::

    python -m slime.sglang.argument_table --write

Names, types, choices and defaults are taken; help texts are not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slime.sglang import cpu

# By its path, because importing slime.config reads the table, which may be missing.
TABLE = Path(__file__).parents[1] / "config" / "sglang_arguments.json"

# Runs in a process of its own: SGLang's import changes global state, and on a CPU it needs the stand-ins on its path.
_PROGRAM = """
import argparse, json, sys
from importlib.metadata import version
from sglang.srt.server_args import ServerArgs

parser = argparse.ArgumentParser(allow_abbrev=False)
ServerArgs.add_cli_args(parser)
rows = []
for action in parser._actions:
    if isinstance(action, argparse._HelpAction):
        continue
    kind = type(action).__name__
    choices = action.choices
    rows.append({
        "names": [name for name in action.option_strings if not name.startswith("--no-")],
        "field": action.dest,
        "action": kind,
        "type": getattr(action.type, "__name__", None),
        "nargs": action.nargs,
        "choices": None if choices is None else (sorted(choices) if isinstance(choices, set) else list(choices)),
        "default": action.default,
    })
json.dump({"version": version("sglang"), "rows": rows}, sys.stdout)
"""

# SGLang's converters that read a plain number; every other converter reads text, some of it JSON.
_NUMBERS = {"int": "int", "human_readable_int": "int", "float": "float"}


class UnreadableArgumentsError(RuntimeError):
    """The installed SGLang's parser could not be made; the message ends with what it said."""


def read_installed() -> dict[str, Any]:
    """The table of the installed SGLang: ``{"version", "arguments"}``, arguments in the parser's order.

    Raises:
        UnreadableArgumentsError: SGLang is missing or does not import.
    """
    environment = dict(os.environ) | (cpu.environment() if find_spec("triton") is None else {})
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    if done.returncode != 0:
        raise UnreadableArgumentsError(f"SGLang's arguments cannot be read: {done.stderr.strip()[-2000:]}")
    # SGLang's import prints notices to the standard output as well; the document is the last line.
    found = json.loads(done.stdout.splitlines()[-1])
    return {"version": found["version"], "arguments": [_argument(row) for row in found["rows"]]}


def _argument(row: dict[str, Any]) -> dict[str, Any]:
    """One entry: name without dashes, field of ServerArgs, type, whether a list, choices, default, other names, and
    whether `--no-` turns it off. What is empty is left out.
    """
    switch = row["action"] in ("_StoreTrueAction", "BooleanOptionalAction", "DeprecatedStoreTrueAction")
    name, *others = (one.removeprefix("--") for one in row["names"])
    entry = {
        "name": name,
        "field": row["field"],
        "type": "bool" if switch else _NUMBERS.get(row["type"] or "str", "str"),
        "many": row["nargs"] in ("+", "*"),
        "choices": None if row["choices"] is None else [str(one) for one in row["choices"]],
        "default": row["default"],
        "also": others,
        "deprecated": row["action"].startswith("Deprecated"),
        "negatable": row["action"] == "BooleanOptionalAction",
    }
    # The default False of a switch stays: it is no None, which stands for what the server works out.
    return {key: value for key, value in entry.items() if key == "default" or value not in (None, [], False)}


def document(table: dict[str, Any]) -> str:
    """The table as JSON with one argument a line, so that a new version reads well as a difference."""
    lines = ",\n".join("    " + json.dumps(one, ensure_ascii=True) for one in table["arguments"])
    return f'{{\n  "version": {json.dumps(table["version"])},\n  "arguments": [\n{lines}\n  ]\n}}\n'


def main() -> int:
    """Print the table of the installed SGLang, or write it to its place with ``--write``."""
    parser = argparse.ArgumentParser(prog="python -m slime.sglang.argument_table", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name} of slime.config")
    write = parser.parse_args().write
    try:
        text = document(read_installed())
    except UnreadableArgumentsError as error:
        print(error, file=sys.stderr)
        return 1
    if write:
        TABLE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
