"""Shell words. Everything that a user typed becomes a single-quoted literal; nothing is ever expanded.

The JavaScript twin is ``sphinx_slime_lab/js/src/core/quoting.js``.
"""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_./:=@%+,-]+", re.ASCII)


def quote(text: str) -> str:
    """``text`` as one single-quoted shell word.

    A single quote inside closes the literal, stands in double quotes, and opens it again.
    """
    return "'" + text.replace("'", "'\"'\"'") + "'"


def word(value: str | int, *, literal: bool) -> str:
    """One shell word: digits as they are, a text quoted when it is a user's (``literal``) or needs it."""
    if isinstance(value, int):
        return str(value)
    return value if not literal and _BARE.fullmatch(value) else quote(value)


def yaml_scalar(value: str | int | bool) -> str:
    """A value of ``sglang.yaml``: digits, true or false, or a double-quoted text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
