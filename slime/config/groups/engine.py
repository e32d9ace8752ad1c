"""SGLang's other server arguments: one flag for each that has no declaration of its own in `ServingFlags`.

They are made from the table of the installed SGLang's parser, so that names, types, choices and defaults are SGLang's.
Most are passed on as they are given; those that ask something of the runtime as well are planned.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from slime.config.flags import flag, planned
from slime.config.groups.serving import ServingFlags
from slime.config.refused import REFUSED
from slime.config.sglang_passing import takes_part
from slime.config.sglang_table import ServerArgument, server_arguments
from slime.config.underneath import SGLANG_PREFIX

_DECLARED = frozenset(field.name for field in dataclasses.fields(ServingFlags))


def _further() -> list[tuple[str, Any, Any]]:
    """Name, annotation and declaration of each flag, as `dataclasses.make_dataclass` takes them."""
    found = []
    for one in server_arguments().values():
        name = "sglang_" + one.name.replace("-", "_")
        if name in _DECLARED or SGLANG_PREFIX + one.name in REFUSED:
            continue
        found.append((name, _annotation(one), _declare(one)))
    return found


def _annotation(one: ServerArgument) -> Any:
    if one.many:
        return tuple[one.type, ...] | None  # type: ignore[name-defined]  # the type is data here
    return bool if one.type is bool and one.default is False else one.type | None


def _declare(one: ServerArgument) -> Any:
    default = False if _annotation(one) is bool else None
    argument = f"--{one.name}"
    part = takes_part(one.name)
    if part is None:
        return flag(
            default, f"原样传给 SGLang 的 {argument}", f"passed on to SGLang as its {argument}", source="sglang"
        )
    return planned(
        default,
        f"SGLang 的 {argument}；{part.zh}",
        f"SGLang's {argument}; {part.en}",
        source="sglang",
    )


if TYPE_CHECKING:

    @dataclasses.dataclass(frozen=True)
    class EngineFlags:
        """Server arguments that nothing in this package reads by name."""

else:
    EngineFlags = dataclasses.make_dataclass("EngineFlags", _further(), frozen=True)
    EngineFlags.__doc__ = "Server arguments that nothing in this package reads by name."
    EngineFlags.__module__ = __name__
