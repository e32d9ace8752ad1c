"""The server's arguments as data: read from the table beside this module, which `slime.sglang.argument_table` makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "sglang_arguments.json"

# What SGLang 0.5.15 called these arguments.
EARLIER_NAMES: Mapping[str, str] = {
    "nsa-prefill-backend": "dsa-prefill-backend",
    "nsa-decode-backend": "dsa-decode-backend",
    "mamba-scheduler-strategy": "mamba-radix-cache-strategy",
    "cuda-graph-bs": "cuda-graph-bs-decode",
    "cuda-graph-max-bs": "cuda-graph-max-bs-decode",
}


@dataclass(frozen=True)
class ServerArgument:
    """One argument of SGLang's server.

    ``name`` is the command-line name without dashes, ``field`` the attribute of ``ServerArgs``, ``type`` one of bool,
    int, float and str, ``default`` what the server takes when it is not given, ``also`` its other names. A switch that
    is ``negatable`` is turned off by its name with ``no-`` in front.
    """

    name: str
    field: str
    type: type
    many: bool = False
    choices: tuple[str, ...] | None = None
    default: Any = None
    also: tuple[str, ...] = ()
    deprecated: bool = False
    negatable: bool = False


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


def table_version() -> str:
    """The SGLang version whose parser the table was read from."""
    version: str = _document()["version"]
    return version


@cache
def server_arguments() -> Mapping[str, ServerArgument]:
    """Every argument by its name without dashes, in the parser's order."""
    types = {"bool": bool, "int": int, "float": float, "str": str}
    found = {}
    for row in _document()["arguments"]:
        values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in row.items()}
        values["type"] = types[row["type"]]
        found[row["name"]] = ServerArgument(**values)
    return found


@cache
def other_names() -> Mapping[str, str]:
    """Second names of arguments, each with the name that the table lists: ``expert-parallel-size`` is ``ep-size``."""
    return {other: one.name for one in server_arguments().values() for other in one.also}
