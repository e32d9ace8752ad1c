"""What the reference directives share: the argument, the anchor of a name, the link to the same data as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from slime.config import GROUP_TITLES
from slime.experiment.texts import nearest
from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.domain import GUIDE, slime_domain
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.messages import warn
from sphinx_slime_lab.workbench import Workbench, workbench_of


class ReferenceDirective(SphinxDirective):
    """What the tables share."""

    has_content = False
    optional_arguments = 1
    classes: ClassVar[tuple[str, ...]] = ()
    argument_kind: ClassVar[str] = ""
    """What the argument is: empty, ``severity``, ``recipe`` or ``group`` (of flags)."""
    twin: ClassVar[str] = ""
    """The same data as JSON: a file of ``twins``, with ``{argument}``; empty for none."""

    def run(self) -> Sequence[nodes.Node]:
        """Return the table, or nothing after a warning about the argument."""
        bench = workbench_of(self.env)
        bench.note_reader(self.env)
        argument = self.arguments[0].strip() if self.arguments else ""
        known = {
            "": (),
            "severity": ("error", "note", "planned"),
            "recipe": tuple(bench.facts.launch),
            "group": tuple(GROUP_TITLES),
        }[self.argument_kind]
        if (argument or self.argument_kind == "recipe") and argument not in known:
            close = nearest(argument, known) or ", ".join(known) or "no argument"
            warn(f"{self.name}: {argument!r} is not known here; write {close}", "reference", self.get_location())
            return []
        holder = nodes.container("", *self.tables(bench, argument), classes=["slime-reference", *self.classes])
        holder["support_smartquotes"] = False
        if self.twin:
            path = self.twin.format(argument=argument)
            link = ours.lab_data("", word(bench.language, "as_json"), path=path)
            holder += nodes.paragraph("", "", link, classes=["slime-data"])
        return [holder]

    def tables(self, bench: Workbench, argument: str) -> Iterable[nodes.Node]:
        """Yield the nodes of this kind of reference."""
        raise NotImplementedError

    def heads(self, bench: Workbench, *keys: str) -> list[str]:
        """Return header texts by their words."""
        return [word(bench.language, key) for key in keys]

    def target(self, kind: str, name: str, title: str) -> nodes.Node:
        """Return the name as code, with the anchor that the role of ``kind`` links to."""
        anchor = nodes.make_id(f"{kind}-{name}")
        slime_domain(self.env).note(kind, name, anchor, title, self.get_location())
        node = nodes.literal("", name, ids=[anchor])
        self.state.document.note_explicit_target(node)
        return node


def guide(bench: Workbench, label: str, docname: str) -> nodes.paragraph:
    """Return a link to the section of the documentation with this label; nothing to read where there is none."""
    content = nodes.inline("", word(bench.language, "guide_link", title="{title}"))
    link = addnodes.pending_xref(
        "", content, refdomain="slime", reftype=GUIDE, reftarget=label, refdoc=docname, refexplicit=True, refwarn=False
    )
    return nodes.paragraph("", "", link, classes=["slime-entries__guide"])


def entry(term: Sequence[nodes.Node], *body: nodes.Node) -> nodes.definition_list_item:
    """Return one entry of a definition list: the line that names it, and what there is to say."""
    return nodes.definition_list_item("", nodes.term("", "", *term), nodes.definition("", *body))


def entries(items: Iterable[nodes.definition_list_item]) -> nodes.definition_list:
    """Return the definition list of the entries."""
    return nodes.definition_list("", *items, classes=["slime-entries"])


def facts(rows: Iterable[tuple[str, Sequence[nodes.Node]]]) -> nodes.field_list:
    """Return named facts of an entry; a fact without content is left out."""
    listed = nodes.field_list()
    for name, content in rows:
        if content:
            body = nodes.field_body("", nodes.paragraph("", "", *content))
            listed += nodes.field("", nodes.field_name("", name), body)
    return listed
