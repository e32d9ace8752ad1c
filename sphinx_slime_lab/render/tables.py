"""Small constructors of docutils nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes
from sphinx import addnodes

Cell = str | nodes.Node | Sequence[nodes.Node]
"""What a table cell may hold: a text, an inline node, or several of them in one paragraph."""


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]], widths: Sequence[int], kind: str) -> nodes.table:
    """Return a table with a header row; ``widths`` are relative, ``kind`` ends the class name."""
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", _row(header))
    group += nodes.tbody("", *[_row(row) for row in rows])
    return nodes.table("", group, classes=["slime-lab__table", f"slime-lab__table--{kind}"])


def _row(cells: Sequence[Cell]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", *inline(cell))) for cell in cells])


def inline(cell: Cell) -> list[nodes.Node]:
    """Return the inline nodes of a cell."""
    if isinstance(cell, str):
        return [nodes.Text(cell)] if cell else []
    if isinstance(cell, nodes.Node):
        return [cell]
    return list(cell)


def code(text: str) -> nodes.literal:
    """Return inline code."""
    return nodes.literal("", text)


def bullets(items: Iterable[Sequence[nodes.Node]], kind: str) -> nodes.bullet_list:
    """Return a list, one paragraph an item."""
    entries = [nodes.list_item("", nodes.paragraph("", "", *item)) for item in items]
    return nodes.bullet_list("", *entries, classes=[f"slime-lab__{kind}"])


def reference(kind: str, target: str, text: str, docname: str, *, literal: bool = True) -> addnodes.pending_xref:
    """Return a link into the domain, which stays plain text when no page documents the target."""
    content = nodes.literal("", text) if literal else nodes.inline("", text)
    return addnodes.pending_xref(
        "", content, refdomain="slime", reftype=kind, reftarget=target, refdoc=docname, refexplicit=True, refwarn=False
    )


def separated(items: Sequence[nodes.Node], separator: str = ", ") -> list[nodes.Node]:
    """Return the items with a text between neighbours."""
    result: list[nodes.Node] = []
    for item in items:
        if result:
            result.append(nodes.Text(separator))
        result.append(item)
    return result
