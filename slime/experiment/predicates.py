"""Named predicates on text: what regular expressions would do, without their differences between two languages.

Every class of characters is ASCII and written out, every match covers the whole text. The JavaScript twin is
``sphinx_slime_lab/js/src/core/predicates.js``; ``tests/corpus/predicates.yaml`` holds accepted and rejected texts for
both.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SEGMENT = r"[A-Za-z_][A-Za-z0-9_]*"
_IMPORT_PATH = re.compile(rf"{_SEGMENT}(\.{_SEGMENT})+", re.ASCII)
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_ENDPOINT = re.compile(
    r"(https?://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]):([1-9][0-9]{0,4})", re.ASCII
)
_DECIMAL = re.compile(r"([0-9]{1,32}(\.[0-9]{1,32})?|\.[0-9]{1,32})([eE][+-]?[0-9]{1,2})?", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*", re.ASCII)


def split_on_spaces(text: str) -> list[str]:
    """The parts between runs of U+0020; no other character separates."""
    return [part for part in text.split(" ") if part]


def is_absolute_path(text: str) -> bool:
    """Starts with ``/``. A ``~`` is never expanded inside a quoted literal, so it does not count."""
    return text.startswith("/")


def is_import_path(text: str) -> bool:
    """``package.module.name``: at least two ASCII identifiers joined by dots (a colon form is not accepted)."""
    return _IMPORT_PATH.fullmatch(text) is not None


def is_run_id(text: str) -> bool:
    """A letter or digit, then up to 127 of letters, digits, ``.``, ``_`` and ``-``."""
    return _RUN_ID.fullmatch(text) is not None


def is_endpoint(text: str) -> bool:
    """``[http(s)://]host:port`` with a port of 1-65535; IPv6 addresses stand in brackets."""
    match = _ENDPOINT.fullmatch(text)
    return match is not None and int(match.group(3)) <= 65535


def is_endpoint_list(text: str) -> bool:
    """One or more endpoints separated by spaces."""
    parts = split_on_spaces(text)
    return bool(parts) and all(is_endpoint(part) for part in parts)


def is_positive_decimal(text: str) -> bool:
    """A plain or exponent decimal above zero: no sign, no hexadecimal, exponent of at most two digits."""
    if _DECIMAL.fullmatch(text) is None:
        return False
    mantissa = re.split("[eE]", text)[0]
    return any(digit in "123456789" for digit in mantissa)


def is_device_list(text: str) -> bool:
    """Device names separated by commas, such as ``mlx5_0,mlx5_1``; no spaces."""
    return all(_DEVICE.fullmatch(part) is not None for part in text.split(","))


PREDICATES: dict[str, Callable[[str], bool]] = {
    "is_absolute_path": is_absolute_path,
    "is_import_path": is_import_path,
    "is_run_id": is_run_id,
    "is_endpoint_list": is_endpoint_list,
    "is_positive_decimal": is_positive_decimal,
    "is_device_list": is_device_list,
}
"""Every predicate by the name that expressions use."""
