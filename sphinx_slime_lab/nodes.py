"""Nodes of the extension. Their children are the fallback that every builder can write.

lab                       one experiment; attributes: uid, name, title, state, interactive
  lab_caption
  lab_live
    lab_picture           the GPU layout; drawn in HTML, skipped elsewhere
    lab_block("totals")   bullet_list
    lab_block("findings") bullet_list
    lab_details           lab_summary, table with the facts of the picture
  lab_details             lab_summary, lessons: lab_block with lab_variant, pictures and sentences
  lab_details             lab_summary, table of the choices
  lab_files
    lab_file              lab_caption, literal_block, lab_details with the reason of every line
  lab_block("run")        enumerated_list of the steps to run the files
  lab_details             lab_summary, paragraphs and tables of the provenance
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class lab(nodes.General, nodes.Element):
    """One experiment."""


class lab_live(nodes.General, nodes.Element):
    """What answers an edit at once: picture, totals, findings."""


class lab_picture(nodes.General, nodes.Element):
    """A drawing: ``svg`` and its class ``css``. No children: the same facts stand next to it as words."""


class lab_block(nodes.General, nodes.Element):
    """A named part; attribute ``kind``."""


class lab_variant(nodes.General, nodes.Element):
    """What is said under some values of choices; attributes ``when`` (values by choice) and ``shown`` (whether now)."""


class lab_details(nodes.General, nodes.Element):
    """A part that opens on demand in HTML and is simply there elsewhere; attribute ``kind``."""


class lab_summary(nodes.General, nodes.TextElement):
    """The line that names a ``lab_details``."""


class lab_caption(nodes.General, nodes.TextElement):
    """A name that HTML writes in its own way and every other builder as a paragraph."""


class lab_files(nodes.General, nodes.Element):
    """The generated files."""


class lab_file(nodes.General, nodes.Element):
    """One generated file; attributes ``filename`` and ``content``."""


class lab_data(nodes.Inline, nodes.TextElement):
    """A link to one of the JSON files next to the pages; attribute ``path``. Elsewhere it is its text."""


_CONTAINERS = (lab, lab_live, lab_block, lab_details, lab_files, lab_file, lab_data)
_OTHER_BUILDERS = ("latex", "text", "man", "texinfo")


def _pass(translator: Any, node: nodes.Element) -> None:
    """Leave the work to the children."""


def _skip(translator: Any, node: nodes.Element) -> None:
    raise nodes.SkipNode


def _visit_variant(translator: Any, node: nodes.Element) -> None:
    """Without scripts only what is true of the experiment is written."""
    if not node["shown"]:
        raise nodes.SkipNode


def _visit_summary(translator: Any, node: nodes.Element) -> None:
    translator.visit_paragraph(node)


def _depart_summary(translator: Any, node: nodes.Element) -> None:
    translator.depart_paragraph(node)


def register(app: Sphinx) -> None:
    """Add every node with its visitors: HTML from ``html``, the rest passes through to the children."""
    from sphinx_slime_lab import html

    for node in _CONTAINERS:
        visitors: dict[str, Any] = dict.fromkeys(_OTHER_BUILDERS, (_pass, _pass))
        app.add_node(node, html=html.visitors(node), **visitors)
    variant: dict[str, Any] = dict.fromkeys(_OTHER_BUILDERS, (_visit_variant, _pass))
    app.add_node(lab_variant, html=html.visitors(lab_variant), **variant)
    skipped: dict[str, Any] = dict.fromkeys(_OTHER_BUILDERS, (_skip, None))
    app.add_node(lab_picture, html=html.visitors(lab_picture), **skipped)
    summary: dict[str, Any] = dict.fromkeys(_OTHER_BUILDERS, (_visit_summary, _depart_summary))
    app.add_node(lab_summary, html=html.visitors(lab_summary), **summary)
    app.add_node(lab_caption, html=(_skip, None), **summary)
