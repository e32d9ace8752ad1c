"""Each rule of the flags refuses a configuration, with its numbers, and lets a near one pass."""

from __future__ import annotations

import pytest

from slime.config import Config
from slime.config.preflight import RULES
from slime.config.rule import Finding
from slime.config.validate import validate

from .flag_cases import FLAG_CASES, READY, Values

BY_ID = {rule.id: rule for rule in RULES}


def findings(rule: str, values: Values) -> list[Finding]:
    check = BY_ID[rule].cfg
    assert check is not None
    return list(check(Config(**{**READY, **values})))  # type: ignore[arg-type]


def test_the_ready_configuration_is_clean() -> None:
    assert validate(Config(**READY)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("rule", "bad", "parts", "good"), FLAG_CASES)
def test_a_rule_refuses_and_lets_pass(rule: str, bad: Values, parts: list[str], good: Values) -> None:
    (finding,) = findings(rule, bad)
    text = f"{finding.message} {finding.hint}"
    for part in parts:
        assert part in text
    assert finding.flags, "a finding about flags names them"
    assert findings(rule, good) == []


def test_every_rule_of_the_flags_has_a_case() -> None:
    assert {rule for rule, *_ in FLAG_CASES} == {rule.id for rule in RULES if rule.cfg is not None}
