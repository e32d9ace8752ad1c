"""Give each experiment its parts when its page is written.

An experiment has over a thousand nodes, and all of them follow from its choices. While pages are read, only the choices
are kept: the environment stays small, and none of Sphinx's transforms walks through what was generated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.nodes import make_refnode

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.render import parts
from sphinx_slime_lab.render.install import install
from sphinx_slime_lab.render.lessons import lessons
from sphinx_slime_lab.render.memory import memory
from sphinx_slime_lab.render.provenance import provenance
from sphinx_slime_lab.render.run import run_steps
from sphinx_slime_lab.render.tour import tour
from sphinx_slime_lab.workbench import Workbench, workbench

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NOT_SEARCHED = "no-search"
"""The class whose nodes Sphinx leaves out of its index: words of shells and of their reasons are on every page."""


def fill_experiments(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the parts into every experiment of a page that is about to be written."""
    bench = workbench(app.config)
    for node in list(doctree.findall(ours.lab)):
        _fill(bench, node)
        _resolve(app, node, docname)


def _fill(bench: Workbench, node: ours.lab) -> None:
    experiment = bench.experiment(node["state"])
    uid, docname = node["uid"], node["docname"]
    node += ours.lab_caption("", "", nodes.strong("", node["title"]))
    if node["has_tour"]:
        node += tour(bench, uid)
    node += parts.live(bench, experiment, uid, docname)
    if node["interactive"]:
        node += lessons(bench, experiment, uid)
        node += memory(bench, experiment.state)
        node += install(bench)
    node += parts.choices(bench, experiment, docname)
    files, origin = parts.files(bench, experiment, uid, docname), provenance(bench, experiment)
    for generated in (files, origin):
        generated["classes"].append(NOT_SEARCHED)
    node += [files, run_steps(bench, experiment), origin]


def _resolve(app: Sphinx, node: ours.lab, docname: str) -> None:
    """Link the names of choices, rules and flags to the pages that document them; elsewhere they are text."""
    domain = slime_domain(app.env)
    for reference in list(node.findall(pending_xref)):
        content = reference[0]
        entry = domain.objects.get((reference["reftype"], reference["reftarget"]))
        if entry is not None:
            target, anchor, title = entry
            content = make_refnode(app.builder, docname, target, anchor, content, title)
        reference.replace_self(content)
