"""Every rule with its sentence, its condition, an experiment that breaks it and what the repairs do to that one.

Nothing here is written by hand: the example is the rule's own, the finding and the repairs are the engine's answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from docutils import nodes

from slime.config.preflight import RULES as PREFLIGHT
from slime.experiment.coverage import load_coverage
from slime.experiment.messages import MESSAGES
from slime.experiment.schema import Rule
from slime.experiment.tables import Scalar
from slime.experiment.validation import Finding
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective, entries, entry, facts, guide
from sphinx_slime_lab.render.tables import Cell, code, reference, separated, table
from sphinx_slime_lab.workbench import Workbench


class RulesDirective(ReferenceDirective):
    """The rules of one severity, or all."""

    argument_kind = "severity"
    twin = "rules.json"

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one list of entries."""
        items = [self._entry(bench, rule) for rule in bench.tables.rules if argument in ("", rule.severity)]
        if argument in ("", "planned"):
            items.append(self._planned(bench))
        yield entries(items)

    def _term(self, bench: Workbench, rule: str, severity: str, says: str) -> Sequence[nodes.Node]:
        return [self.target("rule", rule, says), nodes.Text(" " + word(bench.language, f"severity_{severity}"))]

    def _planned(self, bench: Workbench) -> nodes.definition_list_item:
        """R01 stands in no table of rules: the engine computes it from the registry of flags."""
        says = bench.text(MESSAGES["R01"])
        return entry(self._term(bench, "R01", "planned", says), nodes.paragraph("", says))

    def _entry(self, bench: Workbench, rule: Rule) -> nodes.definition_list_item:
        says = bench.text(rule.message)
        fields = [reference("field", name, name, self.env.docname) for name in rule.each or rule.fields_]
        body = [nodes.paragraph("", says), *self._example(bench, rule)]
        good = rule.examples.good[:1]
        body.append(
            facts(
                [
                    (word(bench.language, "passes"), [code(flow(good[0]))] if good else []),
                    (word(bench.language, "condition"), [code(rule.when.text)]),
                    (word(bench.language, "field_names"), separated(fields)),
                    (word(bench.language, "source_of_rule"), [nodes.Text(rule.source)] if rule.source else []),
                ]
            )
        )
        guides = {one.guide: None for one in bench.tables.fields if one.name in (rule.each or rule.fields_)}
        body += [guide(bench, label, self.env.docname) for label in guides if label is not None]
        return entry(self._term(bench, rule.id, rule.severity, says), *body)

    def _example(self, bench: Workbench, rule: Rule) -> Iterator[nodes.Node]:
        """Yield an experiment that breaks the rule, what the engine says of it, and its repairs."""
        if not rule.examples.bad:
            return
        choices = rule.examples.bad[0]
        state = bench.catalog.sanitise(dict(choices)).state
        finding = next(one for one in bench.catalog.validate(state).findings if one.id == rule.id)
        yield nodes.paragraph(
            "",
            "",
            nodes.Text(word(bench.language, "breaks") + " "),
            code(flow(choices)),
            classes=["slime-entries__bad"],
        )
        yield nodes.paragraph("", finding.message.get(bench.language), classes=["slime-entries__said"])
        if finding.repairs:
            yield nodes.bullet_list("", *self._repairs(bench, state, finding))

    def _repairs(self, bench: Workbench, state: dict[str, Scalar], finding: Finding) -> Iterator[nodes.list_item]:
        for offered in finding.repairs:
            preview = bench.catalog.repair(state, finding.id, offered.id)
            changes = [code(f"{one.field}: {_plain(one.before)} → {_plain(one.after)}") for one in preview.changes]
            said = [
                nodes.Text(word(bench.language, "repaired_by", title=offered.title.get(bench.language))),
                *separated(changes),
            ]
            yield nodes.list_item("", nodes.paragraph("", "", *said))


class CoverageDirective(ReferenceDirective):
    """The known failures of real runs, each with the lab's rules that find it or the reason why none does."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one table; numbers and titles are those of ``slime check``."""
        coverage = load_coverage(bench.tables.rules, bench.root)
        titles = {rule.row: rule.title[bench.language] for rule in PREFLIGHT if rule.row is not None}
        says = {reason.id: bench.text(reason.says) for reason in coverage.reasons}
        rows: list[tuple[Cell, ...]] = []
        for row in coverage.rows:
            found = separated([reference("rule", rule, rule, self.env.docname) for rule in row.rules])
            rows.append((str(row.row), titles[row.row], found if row.reason is None else says[row.reason]))
        heads = [word(bench.language, key) for key in ("coverage_number", "coverage_failure", "coverage_rule")]
        yield table(heads, rows, (8, 42, 50), "coverage")


def flow(choices: Mapping[str, Scalar]) -> str:
    """Return choices as one line of YAML."""
    return "{" + ", ".join(f"{name}: {_plain(value)}" for name, value in choices.items()) + "}"


def _plain(value: Scalar) -> str:
    """Return a value as YAML writes it: texts bare where that is the same text."""
    if isinstance(value, str):
        bare = value and value[0].isalpha() and all(c.isalnum() or c in "._-/" for c in value)
        return value if bare and value not in ("true", "false", "null", "yes", "no", "on", "off") else json.dumps(value)
    return json.dumps(value)
