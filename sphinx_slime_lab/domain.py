"""The domain ``slime``: labs, recipes, fields, rules and flags that pages can point at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.domains import Domain, ObjType
from sphinx.roles import XRefRole
from sphinx.util.nodes import make_refnode

from sphinx_slime_lab.messages import warn

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.environment import BuildEnvironment

KINDS = ("lab", "recipe", "field", "rule", "flag")
"""Kinds of objects, each of which is also the name of its role."""


GUIDE = "guide"
"""What a reference to a section of prose is called; it has no role, since pages write ``{ref}``."""


class CatalogRole(XRefRole):
    """A reference whose target must exist in the data, whether or not a page documents it."""

    def process_link(
        self, env: BuildEnvironment, refnode: Element, has_explicit_title: bool, title: str, target: str
    ) -> tuple[str, str]:
        """Check the target while reading, so that the warning has the line of the role."""
        from sphinx_slime_lab.workbench import workbench_of

        kind = refnode["reftype"]
        problem = workbench_of(env).unknown(kind, target)
        if problem:
            warn(problem, "reference", self.get_location())
        return title, target


class SlimeDomain(Domain):
    """Objects of the lab. ``data["objects"]`` maps ``kind`` and name to ``(docname, anchor, title)``."""

    name = "slime"
    label = "slime"
    data_version = 2
    object_types: ClassVar[dict[str, ObjType]] = {kind: ObjType(kind, kind) for kind in KINDS}
    roles: ClassVar[dict[str, Any]] = {
        "lab": XRefRole(warn_dangling=True),
        **{kind: CatalogRole() for kind in KINDS if kind != "lab"},
    }
    initial_data: ClassVar[dict[str, Any]] = {"objects": {}, "readers": {}, "experiments": {}}

    @property
    def objects(self) -> dict[tuple[str, str], tuple[str, str, str]]:
        """Everything that pages document."""
        objects: dict[tuple[str, str], tuple[str, str, str]] = self.data["objects"]
        return objects

    @property
    def readers(self) -> dict[str, bool]:
        """Documents whose content comes from the data, so that they are read again when it changes."""
        readers: dict[str, bool] = self.data["readers"]
        return readers

    @property
    def experiments(self) -> dict[str, list[dict[str, Any]]]:
        """By document, its labs and recipes as plain data: ``experiments.json`` is made from them."""
        experiments: dict[str, list[dict[str, Any]]] = self.data["experiments"]
        return experiments

    def note(self, kind: str, name: str, anchor: str, title: str, location: Any) -> None:
        """Record an object of the current document; a second one of the same name is warned of."""
        other = self.objects.get((kind, name))
        if other is not None:
            warn(f"duplicate {kind} {name!r}: the other one is in {self.env.doc2path(other[0])}", "duplicate", location)
        self.objects[kind, name] = (self.env.docname, anchor, title)

    def clear_doc(self, docname: str) -> None:
        """Forget what a document contributed."""
        self.data["objects"] = {key: entry for key, entry in self.objects.items() if entry[0] != docname}
        self.readers.pop(docname, None)
        self.experiments.pop(docname, None)

    def merge_domaindata(self, docnames: Set[str], otherdata: dict[str, Any]) -> None:
        """Take over what a parallel reader found in its documents."""
        for key, entry in otherdata["objects"].items():
            if entry[0] not in docnames:
                continue
            other = self.objects.get(key)
            if other is not None:
                kind, name = key
                message = f"duplicate {kind} {name!r}: the other one is in {self.env.doc2path(other[0])}"
                warn(message, "duplicate", (entry[0], None))
            self.objects[key] = entry
        self.readers.update({doc: True for doc in otherdata["readers"] if doc in docnames})
        self.experiments.update({doc: found for doc, found in otherdata["experiments"].items() if doc in docnames})

    def get_objects(self) -> Iterable[tuple[str, str, str, str, str, int]]:
        """Yield what the search and other projects may find."""
        for (kind, name), (docname, anchor, title) in sorted(self.objects.items()):
            yield name, title, kind, docname, anchor, 1 if kind in ("lab", "recipe") else 0

    def resolve_xref(
        self,
        env: BuildEnvironment,
        fromdocname: str,
        builder: Builder,
        typ: str,
        target: str,
        node: pending_xref,
        contnode: Element,
    ) -> nodes.reference | None:
        """Link to the page that documents the object."""
        if typ == GUIDE:
            return _to_section(env, fromdocname, builder, target, contnode.astext())
        entry = self.objects.get((typ, target))
        if entry is None:
            return None
        docname, anchor, title = entry
        if not node.get("refexplicit") and typ in ("lab", "recipe"):
            contnode = nodes.inline("", title)
        return make_refnode(builder, fromdocname, docname, anchor, contnode, title)

    def resolve_any_xref(
        self,
        env: BuildEnvironment,
        fromdocname: str,
        builder: Builder,
        target: str,
        node: pending_xref,
        contnode: Element,
    ) -> list[tuple[str, nodes.reference]]:
        """Answer ``{any}`` for every kind that knows the name."""
        return list(self._any(env, fromdocname, builder, target, node, contnode))

    def _any(
        self,
        env: BuildEnvironment,
        fromdocname: str,
        builder: Builder,
        target: str,
        node: pending_xref,
        contnode: Element,
    ) -> Iterator[tuple[str, nodes.reference]]:
        for kind in KINDS:
            reference = self.resolve_xref(env, fromdocname, builder, kind, target, node, contnode)
            if reference is not None:
                yield f"slime:{kind}", reference


def _to_section(
    env: BuildEnvironment, fromdocname: str, builder: Builder, label: str, template: str
) -> nodes.reference | None:
    """Link to a labelled section; ``template`` says where its title goes."""
    docname, anchor, title = env.domains.standard_domain.labels.get(label, ("", "", ""))
    if not docname:
        return None
    content = nodes.inline("", template.format(title=title))
    return make_refnode(builder, fromdocname, docname, anchor, content, title)


def slime_domain(env: BuildEnvironment) -> SlimeDomain:
    """Return the domain of an environment."""
    domain = env.domains["slime"]
    assert isinstance(domain, SlimeDomain)
    return domain


def keep_undocumented(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.TextElement | None:
    """Leave a reference to something that exists in the data, but on no page, as plain text.

    The role has checked while reading that the data have it; a lab exists only where a page has it. Of a section that
    another project's pages do not have, nothing is left.
    """
    if node.get("refdomain") == "slime" and node["reftype"] == GUIDE:
        return nodes.inline()
    known = node.get("refdomain") == "slime" and node["reftype"] in KINDS and node["reftype"] != "lab"
    return contnode if known else None
