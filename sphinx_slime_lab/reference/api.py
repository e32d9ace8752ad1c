"""``{slime:api}``: classes and functions that users import, from their source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.messages import warn
from sphinx_slime_lab.python_api import Documented, NameNotFoundError, Section, find, source_of
from sphinx_slime_lab.reference.base import entries, entry, facts
from sphinx_slime_lab.workbench import workbench_of

_CODE = re.compile(r"(``.+?``|`[^`]+`)")


class ApiDirective(SphinxDirective):
    """One entry for each dotted name; ``{ref}`api-slime-data-sample-sample``` links to that of a class."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> Sequence[nodes.Node]:
        """Return the entries; a name that does not exist is a warning with the nearest."""
        language = workbench_of(self.env).language
        items = []
        for path in self.arguments[0].split():
            try:
                found = find(path)
            except NameNotFoundError as error:
                warn(f"{self.name}: {error}", "reference", self.get_location())
                continue
            self.env.note_dependency(str(source_of(path.rpartition(".")[0])))
            items.append(self._entry(found, path, language))
        holder = nodes.container("", entries(items), classes=["slime-reference", "slime-api"])
        holder["support_smartquotes"] = False
        return [holder]

    def _entry(self, found: Documented, path: str, language: Language) -> nodes.definition_list_item:
        label = nodes.make_id(f"api-{path}")
        name = nodes.literal("", found.signature, names=[label], ids=[label])
        self.state.document.note_explicit_target(name)
        module = path.rpartition(".")[0]
        origin = nodes.paragraph("", "", nodes.literal("", f"from {module} import {found.name}"))
        members = [entry([nodes.literal("", one.signature)], *_said(one.sections, language)) for one in found.members]
        return entry([name], origin, *_said(found.sections, language), *([entries(members)] if members else []))


def _said(sections: Sequence[Section], language: Language) -> Iterator[nodes.Node]:
    """Yield the parts of a docstring. The text is English, as in the source, whatever the language of the page."""
    for section in sections:
        if not section.title:
            for _, text in section.entries:
                yield nodes.paragraph("", "", *_inline(text), translate=False)
            continue
        title = word(language, f"api_{section.title.lower()}")
        if any(name for name, _ in section.entries):
            yield nodes.paragraph("", title, classes=["slime-api__part"])
            yield facts((name, _inline(text)) for name, text in section.entries)
        else:
            texts = [part for _, text in section.entries for part in [*_inline(text), nodes.Text(" ")]]
            yield facts([(title, texts[:-1])])


def _inline(text: str) -> list[nodes.Node]:
    """Return text with what stands between backticks as code."""
    parts = [part for part in _CODE.split(text) if part]
    return [
        nodes.literal("", part.strip("`")) if _CODE.fullmatch(part) else nodes.Text(part.replace("``", ""))
        for part in parts
    ]
