"""The runtime's flags, a table for each group."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes

from slime.config import GROUP_TITLES, REGISTRY, Flag
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective
from sphinx_slime_lab.render.tables import Cell, code, table
from sphinx_slime_lab.workbench import Workbench


class FlagsDirective(ReferenceDirective):
    """The runtime's registry, and what of it runs today."""

    classes = ("slime-reference--wide",)
    twin = "flags.json"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one captioned table for each group of flags."""
        for group, flags in REGISTRY.groups().items():
            title = GROUP_TITLES[group][bench.language] if group in GROUP_TITLES else group
            rows = [self._row(bench, flag) for flag in flags]
            yield nodes.paragraph("", "", nodes.strong("", title))
            yield table(self.heads(bench, "flag", "default", "runs", "meaning"), rows, (30, 14, 16, 40), "reference")

    def _row(self, bench: Workbench, flag: Flag) -> list[Cell]:
        default: Cell = "—" if flag.default is None or flag.default == "" else code(_plain(flag.default))
        return [
            self.target("flag", flag.name, flag.help[bench.language]),
            default,
            _runs(bench, flag),
            flag.help[bench.language],
        ]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _runs(bench: Workbench, flag: Flag) -> str:
    if not flag.runs:
        return word(bench.language, "runs_no")
    if flag.only is None:
        return word(bench.language, "runs_yes")
    return word(bench.language, "runs_only", values=", ".join(flag.only))
