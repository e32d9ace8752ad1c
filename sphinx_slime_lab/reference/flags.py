"""The runtime's flags with all that the registry knows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docutils import nodes

from slime.config import GROUP_TITLES, REGISTRY, Flag
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective, entries, entry, facts
from sphinx_slime_lab.render.tables import code, separated
from sphinx_slime_lab.workbench import Workbench

# The group whose flags have no description of their own: they are passed on to the server.
PASSED_ON = "engine"

_SOURCES = {"slime": "slime", "megatron": "Megatron", "sglang": "SGLang", "own": "slime"}


class FlagsDirective(ReferenceDirective):
    """The flags of one group, or of all; what of them runs today."""

    argument_kind = "group"
    twin = "flags.json"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield a list of entries for each group; with its title when there are several."""
        for group, flags in REGISTRY.groups().items():
            if argument not in ("", group):
                continue
            if not argument:
                yield nodes.paragraph("", "", nodes.strong("", GROUP_TITLES[group][bench.language]))
            yield entries(self._entry(bench, flag) for flag in flags)

    def _entry(self, bench: Workbench, flag: Flag) -> nodes.definition_list_item:
        says = flag.help[bench.language]
        term = [self.target("flag", flag.name, says), nodes.Text(" " + runs_today(bench, flag))]
        told_once = flag.group == PASSED_ON  # by the page, not by each of 450 entries
        named: dict[str, Sequence[nodes.Node]] = {
            "accepts": [nodes.Text(flag.range_text(bench.language))] if not flag.switch else [],
            "default": _default(bench, flag),
            "without_it": _system_default(flag) if flag.default is None else [],
            "sets": separated([code(one) for one in flag.sets]),
            "source_of_flag": [] if told_once else [nodes.Text(f"{_SOURCES[flag.source]} {flag.since}")],
        }
        rows = ((word(bench.language, key), content) for key, content in named.items())
        return entry(term, *([] if told_once else [nodes.paragraph("", says)]), facts(rows))


def _default(bench: Workbench, flag: Flag) -> Sequence[nodes.Node]:
    if flag.required:
        return [nodes.Text(word(bench.language, "required"))]
    empty = flag.default is None or flag.default == "" or (flag.switch and flag.default is False)
    return [] if empty else [code(_plain(flag.default))]


def _system_default(flag: Flag) -> Sequence[nodes.Node]:
    return [] if flag.system_default in (None, "", [], False) else [code(_plain(flag.system_default))]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def runs_today(bench: Workbench, flag: Flag) -> str:
    """Return what of a flag the runtime runs: all of it, some values, or nothing yet."""
    if not flag.runs:
        return word(bench.language, "runs_no")
    if flag.only is None:
        if flag.not_yet:
            return word(bench.language, "runs_but", values=", ".join(flag.not_yet))
        return word(bench.language, "runs_yes")
    return word(bench.language, "runs_only", values=", ".join(flag.only))
