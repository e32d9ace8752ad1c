"""Rules, repairs and accounting on the shipped data."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slime.experiment import Catalog, ChoiceError, load_catalog
from slime.experiment.schema import Rule

RULES = load_catalog().tables.rules
UNTOUCHABLE = {
    "model",
    "task",
    "precision",
    "correction",
    "ib",
    "endpoints",
    "hf",
    "train",
    "data",
    "save",
    "generate",
    "reward",
}
"""What no repair may set: the reader's intent, and names that only the real environment knows."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_examples(catalog: Catalog, rule: Rule) -> None:
    assert rule.examples.bad and rule.examples.good, "a rule shows what it rejects and what it accepts"
    for choices, wanted in [(one, True) for one in rule.examples.bad] + [(one, False) for one in rule.examples.good]:
        read = catalog.sanitise(dict(choices))
        assert [one for one in read.ignored if one.kind in ("unknown", "invalid")] == []
        found = [finding for finding in catalog.validate(read.state).findings if finding.id == rule.id]
        assert bool(found) == wanted, choices
        for finding in found:
            assert finding.severity == rule.severity and finding.fields
            assert "{" not in finding.message.zh + finding.message.en


def test_the_rules_of_the_specification_are_there() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    assert {f"E{number:02}" for number in range(1, 23)} | {f"N{number:02}" for number in range(1, 16)} <= set(ids)


def test_defaults_have_no_error_and_one_note(catalog: Catalog) -> None:
    validation = catalog.validate(catalog.defaults())
    assert validation.ids("error") == [] and validation.ids("note") == ["N12"]
    assert (validation.accounting.train_gpus, validation.accounting.ray_gpus) == (8, 8)


def _random_states(catalog: Catalog, count: int) -> list[dict[str, Any]]:
    dice = random.Random(20240605)
    states = []
    for _ in range(count):
        raw: dict[str, Any] = {"model": dice.choice(list(catalog.facts.launch)), "pd": dice.random() < 0.7}
        raw["layout"] = dice.choice(["colocate", "separate", "external"])
        raw |= {name: dice.choice([1, 2, 3, 6, 8, 12, 20, 64, 100, 512]) for name in ("nodes", "rollout", "prefill")}
        raw |= {name: dice.random() < 0.5 for name in ("r3", "straw", "maskPartial", "speculative")}
        raw["transport"] = dice.choice(["nccl", "disk", "delta"])
        states.append(catalog.sanitise(raw).state)
    return states


def test_an_offered_repair_keeps_its_promise(catalog: Catalog) -> None:
    previews = 0
    for state in _random_states(catalog, 150):
        before = catalog.validate(state)
        for finding in before.findings:
            assert not (finding.repairs and finding.repair_note)
            for offered in finding.repairs:
                preview = catalog.repair(state, finding.id, offered.id)
                after = catalog.validate(preview.state)
                assert finding.id not in [one.id for one in after.findings]
                assert set(after.ids("error")) <= set(before.ids("error"))
                assert [one.id for one in preview.remaining] == after.ids("error")
                assert preview.allocation == after.accounting and preview.before == before.accounting
                changed = {change.field for change in preview.changes}
                assert changed and not changed & UNTOUCHABLE
                assert changed == {name for name in state if state[name] != preview.state[name]}
                assert catalog.sanitise(preview.state).state == preview.state
                if finding.id == "E03":  # a pool that is too small for prefill and decode grows
                    assert preview.state["nodes"] >= state["nodes"]
                previews += 1
    assert previews > 100


def test_a_pool_beyond_the_limits_cannot_be_repaired(catalog: Catalog) -> None:
    """glm-4.7 needs whole multiples of 8 nodes; 510 would need 512, and 512 is the last legal count."""
    state = catalog.sanitise({"model": "glm-4.7", "nodes": 510}).state
    assert [one.id for one in catalog.validate(state).findings[0].repairs] != []
    glm5 = catalog.sanitise({"model": "glm-5.3", "layout": "separate", "pd": True, "ib": "a", "rollout": 8191}).state
    finding = next(one for one in catalog.validate(glm5).findings if one.id == "E02")
    for offered in finding.repairs:
        rollout = catalog.repair(glm5, "E02", offered.id).state["rollout"]
        assert isinstance(rollout, int) and rollout <= 8192


def test_an_absent_repair_is_refused(catalog: Catalog) -> None:
    with pytest.raises(ChoiceError, match="E03 offers no repair named separate"):
        catalog.repair(catalog.defaults(), "E03", "separate")


def test_planned_names_the_choice_and_its_flags(catalog: Catalog) -> None:
    state = catalog.sanitise({"model": "tiny", "deterministic": True}).state
    planned = [finding for finding in catalog.validate(state).findings if finding.id == "R01"]
    assert [finding.severity for finding in planned] == ["planned"] * len(planned)
    (finding,) = [one for one in planned if one.fields == ["deterministic"]]
    assert "--deterministic-mode" in finding.message.en and "--deterministic-mode" in finding.message.zh


def test_the_laptop_preset_runs_today(catalog: Catalog) -> None:
    validation = catalog.validate(catalog.preset("laptop"))
    assert validation.ids("error") == [] and validation.ids("planned") == []
