"""Every choice with its values, limits and default, the flags it writes, and whether a link may carry it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docutils import nodes

from slime.config import REGISTRY
from slime.experiment.expression import TRUE
from slime.experiment.schema import ChoiceField
from sphinx_slime_lab.facts import show
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective, entries, entry, facts, guide
from sphinx_slime_lab.render.tables import code, reference, separated
from sphinx_slime_lab.workbench import Workbench


class ChoicesDirective(ReferenceDirective):
    """All choices, a heading for each step of the lab."""

    twin = "choices.json"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one captioned list for each step."""
        for step in bench.tables.steps:
            yield nodes.paragraph("", "", nodes.strong("", bench.text(step.label)), classes=["slime-entries__head"])
            yield entries(self._entry(bench, choice) for choice in bench.tables.fields if choice.step == step.id)

    def _entry(self, bench: Workbench, choice: ChoiceField) -> nodes.definition_list_item:
        label = bench.text(choice.label)
        name = self.target("field", choice.name, label)
        body: list[nodes.Node] = [nodes.paragraph("", bench.text(choice.help))]
        if choice.type == "enum":
            body.append(_values(bench, choice))
        says = [
            ("accepts", _accepted(bench, choice)),
            ("default", _default(bench, choice)),
            ("visible_when", [] if choice.visible == TRUE else [code(choice.visible.text)]),
            ("writes", self._written(bench, choice.name)),
            ("shared", [nodes.Text(word(bench.language, "shared_yes" if choice.share else "shared_no"))]),
        ]
        body.append(facts((word(bench.language, key), content) for key, content in says))
        if choice.guide is not None:
            body.append(guide(bench, choice.guide, self.env.docname))
        return entry([name, nodes.Text(f" {label}")], *body)

    def _written(self, bench: Workbench, name: str) -> Sequence[nodes.Node]:
        """Return the flags whose rows name the choice as a cause, those of the registry as links."""
        flags: dict[str, nodes.Node] = {}
        for row in bench.tables.arguments.arguments:
            if row.flag is None or name not in row.fields_ or row.flag in flags:
                continue
            known = row.flag in REGISTRY
            flags[row.flag] = reference("flag", row.flag, row.flag, self.env.docname) if known else code(row.flag)
        variables = [code(row.name) for row in bench.tables.arguments.environment if row.name and name in row.fields_]
        return separated([*flags.values(), *variables])


def _values(bench: Workbench, choice: ChoiceField) -> nodes.bullet_list:
    """Return the values with their names, what each means, and when the page does not offer it."""
    items = []
    for value in choice.values:
        said: list[nodes.Node] = [code(value.value), nodes.Text(f" {bench.text(value.label)}")]
        if value.help is not None:
            said.append(nodes.Text(word(bench.language, "explained", text=bench.text(value.help))))
        items.append(nodes.list_item("", nodes.paragraph("", "", *said)))
        reasons = [bench.text(one.why) for one in choice.options if one.value == value.value]
        items[-1] += [nodes.paragraph("", word(bench.language, "not_offered", why=why)) for why in reasons]
    return nodes.bullet_list("", *items)


def _accepted(bench: Workbench, choice: ChoiceField) -> Sequence[nodes.Node]:
    if choice.type == "enum":
        return []
    if choice.type == "bool":
        refused = [word(bench.language, "not_offered", why=bench.text(one.why)) for one in choice.options]
        aside = [nodes.Text(word(bench.language, "aside", text=" ".join(refused)))] if refused else []
        return [*separated([code("true"), code("false")]), *aside]
    if choice.type == "int":
        limits = word(bench.language, "limits", minimum=show(choice.minimum), maximum=show(choice.maximum))
        return [nodes.Text(limits)]
    return [nodes.Text(word(bench.language, "text_up_to", count=show(choice.max_length)))]


def _default(bench: Workbench, choice: ChoiceField) -> Sequence[nodes.Node]:
    default = bench.defaults[choice.name]
    if default == "":
        shown: nodes.Node = nodes.Text(word(bench.language, "empty"))
    else:
        shown = code(str(default).lower() if isinstance(default, bool) else str(default))
    if choice.from_launch is None:
        return [shown]
    return [shown, nodes.Text(word(bench.language, "aside", text=word(bench.language, "of_the_model")))]
