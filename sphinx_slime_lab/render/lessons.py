"""The choices in pictures: how a round goes, how engines write, bits, weights.

Every variant is drawn while the page is built; ``js/src/ui/lessons.js`` shows the ones that fit the experiment and
lights up their phases one after the other. Without scripts the variants of the page's own experiment stand there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docutils import nodes

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.render import numbers, schedules, serving
from sphinx_slime_lab.render.parts import details
from sphinx_slime_lab.workbench import Experiment, Workbench

When = Mapping[str, Sequence[Any]]

_ROUNDS: dict[str, When] = {
    "sync": {"schedule": ["sync"], "partial": [False]},
    "partial": {"schedule": ["sync"], "partial": [True]},
    "async": {"schedule": ["async"], "straw": [False]},
    "distributed": {"schedule": ["async"], "straw": [True]},
}
_TRAIN_BITS: dict[int, list[str]] = {16: ["bf16", "fp8", "int4"], 8: ["fp8train"]}
_ROLLOUT_BITS: dict[int, list[str]] = {16: ["bf16"], 8: ["fp8", "fp8train"], 4: ["int4"]}
_KV_BITS: dict[int, list[str]] = {16: ["auto"], 8: ["fp8"]}


def lessons(bench: Workbench, experiment: Experiment, uid: str) -> ours.lab_details:
    """Return the collapsed part; ``uid`` starts the ids of its pictures."""
    made = _Lessons(bench, experiment, f"{uid}-lesson")
    blocks = [made.rounds(), made.serving(), made.bits(), made.agreement()]
    return details("lessons", word(bench.language, "lessons"), ours.lab_block("", *blocks, kind="lesson-list"))


class _Lessons:
    """What the lessons share: the words, and which variant is true of the experiment."""

    def __init__(self, bench: Workbench, experiment: Experiment, uid: str) -> None:
        self.bench, self.state, self.uid, self.language = bench, experiment.state, uid, bench.language

    def variant(self, when: When, *children: nodes.Node) -> ours.lab_variant:
        shown = all(self.state[name] in values for name, values in when.items())
        return ours.lab_variant("", *children, when={name: list(values) for name, values in when.items()}, shown=shown)

    def block(self, name: str, *children: nodes.Node, kind: str = "lesson") -> ours.lab_block:
        title = nodes.paragraph("", "", nodes.strong("", word(self.language, f"lesson_{name}")))
        return ours.lab_block("", title, *children, kind=kind)

    def phases(self, sentences: Sequence[str]) -> nodes.enumerated_list:
        items = [nodes.list_item("", nodes.paragraph("", one)) for one in sentences]
        return nodes.enumerated_list("", *items, enumtype="arabic", prefix="", suffix=".")

    def says(self, key: str) -> nodes.paragraph:
        return nodes.paragraph("", word(self.language, key))

    def rounds(self) -> ours.lab_block:
        """The four schedules, three phases each."""
        found = [
            self.variant(
                when,
                schedules.draw(name, self.language).node(f"{self.uid}-round-{name}"),
                self.phases([word(self.language, f"round_{name}_{at}") for at in range(3)]),
            )
            for name, when in _ROUNDS.items()
        ]
        return self.block("round", *found, self.says("round_limits"), kind="round")

    def serving(self) -> ours.lab_block:
        """The eight ways of serving."""
        found = [
            self.variant(
                one.when(),
                serving.draw(one, self.language).node(f"{self.uid}-serving-{one.id}"),
                self.phases(one.phases(self.language)),
            )
            for one in serving.ALL
        ]
        hybrid = self.variant({"pd": [True], "model": self.with_part("hybrid")}, self.says("serve_hybrid"))
        return self.block("serving", *found, hybrid, kind="round")

    def bits(self) -> ours.lab_block:
        """One bar for each kind of tensor, and the layers of a hybrid model."""
        cuda, cpu = self.on_device("cuda"), self.on_device("cpu")
        found: list[nodes.Node] = []
        for kind, field, table in (
            ("train", "precision", _TRAIN_BITS),
            ("rollout", "precision", _ROLLOUT_BITS),
            ("kv", "kv", _KV_BITS),
        ):
            for count, values in table.items():
                drawn = numbers.bits(kind, count, self.language, is_assumed=values == ["auto"])
                when: When = {field: values, "model": cuda}
                found.append(self.variant(when, drawn.node(f"{self.uid}-bits-{kind}-{count}")))
            # On a CPU trainer and engine compute in FP32.
            drawn = numbers.bits(kind, 32, self.language)
            found.append(self.variant({"model": cpu}, drawn.node(f"{self.uid}-bits-{kind}-32")))
        for model in self.with_part("hybrid"):
            found += self.hybrid(model)
        found.append(self.variant({"kv": ["auto"], "model": cuda}, self.says("bits_assumed")))
        return self.block("bits", *found)

    def hybrid(self, model: str) -> list[nodes.Node]:
        """The recurrent state of one hybrid model, and its two kinds of layers."""
        hybrid = self.bench.facts.models[self.bench.facts.launch[model].model].hybrid
        assert hybrid is not None
        own = 32 if hybrid.state_dtype == "float32" else 16
        by_bits = {32: ["float32"], 16: ["bfloat16"]}
        by_bits[own] = ["auto", *by_bits[own]]
        name = nodes.make_id(model)
        drawn = [
            self.variant(
                {"model": [model], "mambaDtype": values},
                numbers.bits("state", count, self.language).node(f"{self.uid}-bits-{name}-{count}"),
            )
            for count, values in by_bits.items()
        ]
        split = numbers.layers(hybrid.attention_layers, hybrid.linear_layers, self.language)
        return [
            *drawn,
            self.variant({"model": [model]}, split.node(f"{self.uid}-{name}"), nodes.paragraph("", split.description)),
        ]

    def agreement(self) -> ours.lab_block:
        """Weights, routes, and what centring and determinism do."""
        found: list[nodes.Node] = []
        for kind in numbers.LIMITS:
            drawn, says = numbers.weights(kind, self.language)
            picture = drawn.node(f"{self.uid}-weight-{kind}")
            found.append(self.variant({"correction": [kind]}, picture, nodes.paragraph("", says)))
        for is_replayed in (False, True):
            drawn, says = numbers.routes(is_replayed, self.language)
            picture = drawn.node(f"{self.uid}-routes-{'replayed' if is_replayed else 'own'}")
            when: When = {"r3": [is_replayed], "model": self.with_part("moe")}
            found.append(self.variant(when, picture, nodes.paragraph("", says)))
        found.append(self.variant({"sc": [True]}, self.says("lesson_sc")))
        found.append(self.variant({"deterministic": [True]}, self.says("lesson_deterministic")))
        return self.block("agreement", *found)

    def with_part(self, part: str) -> list[str]:
        """The recipes whose model has a part: ``moe`` or ``hybrid``."""
        facts = self.bench.facts
        return [name for name, recipe in facts.launch.items() if getattr(facts.models[recipe.model], part) is not None]

    def on_device(self, device: str) -> list[str]:
        """The recipes for ``cuda`` or ``cpu``."""
        return [name for name, recipe in self.bench.facts.launch.items() if recipe.device == device]
