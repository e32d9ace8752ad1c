"""Every preflight rule with its reason, where it was learnt, and what it says; from the rules' own data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docutils import nodes

from slime.config.preflight import RULES
from slime.config.preflight.registry import Example, load_examples
from slime.config.rule import Rule
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.reference.base import ReferenceDirective, entries, entry, facts
from sphinx_slime_lab.render.tables import code, separated
from sphinx_slime_lab.workbench import Workbench


class PreflightDirective(ReferenceDirective):
    """The rules in the order of the known failures, then those of this project's own."""

    def tables(self, bench: Workbench, argument: str) -> Iterator[nodes.Node]:
        """Yield one list of entries for each part."""
        examples = load_examples()
        for key, part in (
            ("preflight_known", [rule for rule in RULES if rule.row is not None]),
            ("preflight_own", [rule for rule in RULES if rule.row is None]),
        ):
            title = word(bench.language, key, count=str(len(part)))
            yield nodes.paragraph("", "", nodes.strong("", title), classes=["slime-entries__head"])
            yield entries(self._entry(bench, rule, examples.get(rule.id)) for rule in part)

    def _entry(self, bench: Workbench, rule: Rule, example: Example | None) -> nodes.definition_list_item:
        number = [] if rule.row is None else [nodes.Text(f"{rule.row}. ")]
        # An explicit name makes the anchor a label, which prose reaches by {ref}.
        anchor = f"preflight-{rule.id}"
        name = nodes.literal("", rule.id, names=[anchor], ids=[nodes.make_id(anchor)])
        self.state.document.note_explicit_target(name)
        term = [*number, name, nodes.Text(f" {rule.title[bench.language]}")]
        body: list[nodes.Node] = [nodes.paragraph("", rule.why[bench.language])]
        for key, text in (("preflight_prevented", rule.prevented), ("preflight_absent", rule.absent)):
            if text is not None:
                body.append(nodes.paragraph("", word(bench.language, key, text=text[bench.language])))
        if example is not None:
            hint = f" ({example['hint']})" if example["hint"] else ""
            said = f"[{example['level']} {rule.id}] {example['message']}{hint}"
            # What the command prints is English in every language of the docs.
            body.append(nodes.paragraph("", "", nodes.literal("", said), classes=["slime-entries__said"]))
        body.append(facts((word(bench.language, key), content) for key, content in self._facts(bench, rule)))
        return entry(term, *body)

    def _facts(self, bench: Workbench, rule: Rule) -> Iterator[tuple[str, Sequence[nodes.Node]]]:
        yield "preflight_level", separated([code(level) for level in rule.levels])
        severity = word(bench.language, "severity_error" if rule.severity == "error" else "preflight_warning")
        yield "preflight_severity", [nodes.Text(severity)] if rule.levels else []
        threads = [nodes.reference("", text, refuri=address) for text, address in rule.threads]
        yield "preflight_thread", separated(threads)
