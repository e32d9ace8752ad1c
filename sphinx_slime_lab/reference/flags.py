"""The runtime's flags with all that the registry knows of them; those that are only passed on to SGLang as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docutils import nodes

from slime.config import GROUP_TITLES, REGISTRY, Flag
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective, entries, entry, facts
from sphinx_slime_lab.render.tables import Cell, code, separated, table
from sphinx_slime_lab.workbench import Workbench

# The group whose flags have no description of their own: they are passed on to the server.
PASSED_ON = "engine"


class FlagsDirective(ReferenceDirective):
    """The flags of one group, or of all; what of them runs today."""

    argument_kind = "group"
    twin = "flags.json"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield a list of entries or a table for each group; with its title when there are several."""
        for group, flags in REGISTRY.groups().items():
            if argument not in ("", group):
                continue
            if not argument:
                yield nodes.paragraph("", "", nodes.strong("", GROUP_TITLES[group][bench.language]))
            if group == PASSED_ON:
                heads = self.heads(bench, "flag", "accepts", "without_it", "runs")
                yield table(heads, (self._row(bench, flag) for flag in flags), (34, 36, 14, 16), "reference")
            else:
                yield entries(self._entry(bench, flag) for flag in flags)

    def _name(self, bench: Workbench, flag: Flag) -> nodes.Node:
        return self.target("flag", flag.name, flag.help[bench.language])

    def _entry(self, bench: Workbench, flag: Flag) -> nodes.definition_list_item:
        term = [self._name(bench, flag), nodes.Text(" " + _runs(bench, flag))]
        named = {
            "accepts": [nodes.Text(flag.range_text(bench.language))] if not flag.switch else [],
            "default": _default(bench, flag),
            "without_it": _system_default(flag) if flag.default is None else [],
            "sets": separated([code(one) for one in flag.sets]),
            "source_of_flag": [nodes.Text(f"{flag.source} {flag.since}")],
        }
        rows = ((word(bench.language, key), content) for key, content in named.items())
        return entry(term, nodes.paragraph("", flag.help[bench.language]), facts(rows))

    def _row(self, bench: Workbench, flag: Flag) -> list[Cell]:
        accepts = "" if flag.switch else flag.range_text(bench.language)
        return [self._name(bench, flag), accepts, _system_default(flag), _runs(bench, flag)]


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


def _runs(bench: Workbench, flag: Flag) -> str:
    if not flag.runs:
        return word(bench.language, "runs_no")
    if flag.only is None:
        if flag.not_yet:
            return word(bench.language, "runs_but", values=", ".join(flag.not_yet))
        return word(bench.language, "runs_yes")
    return word(bench.language, "runs_only", values=", ".join(flag.only))
