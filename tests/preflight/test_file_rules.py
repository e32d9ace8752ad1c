"""Each rule of checkpoint, data and host refuses a folder or a machine that is spoilt, and lets a near one pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slime.config.preflight import RULES, examine
from slime.config.rule import Finding

from .bench import Bench
from .checkpoint_cases import CHECKPOINT_CASES, Case, Change
from .data_cases import DATA_CASES
from .host_cases import HOST_CASES

BY_ID = {rule.id: rule for rule in RULES}
CASES: list[Case] = [*CHECKPOINT_CASES, *DATA_CASES, *HOST_CASES]


def findings(rule: str, level: str, folder: Path, change: Change) -> list[Finding]:
    bench = Bench(folder)
    change(bench)
    return list(getattr(BY_ID[rule], level)(bench.inputs()))


def test_the_bench_is_clean(tmp_path: Path) -> None:
    assert examine(Bench(tmp_path).inputs()) == []


@pytest.mark.parametrize(("rule", "level", "bad", "parts", "good"), CASES)
def test_a_rule_refuses_and_lets_pass(
    tmp_path: Path, rule: str, level: str, bad: Change, parts: list[str], good: Change
) -> None:
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
    found = findings(rule, level, tmp_path / "bad", bad)
    assert len(found) == 1, [one.message for one in found]
    text = f"{found[0].message} {found[0].hint}"
    for part in parts:
        assert part in text
    assert findings(rule, level, tmp_path / "good", good) == []


def test_every_rule_has_a_case_at_every_level() -> None:
    wanted = {(rule.id, level) for rule in RULES for level in rule.levels if level != "cfg"}
    assert {(rule, level) for rule, level, *_ in CASES} | {("grader-libraries", "data")} == wanted


def test_a_missing_algebra_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Bench(tmp_path).inputs()
    assert examine(inputs, ["data"]) == []
    monkeypatch.setitem(sys.modules, "math_verify", None)  # as if it were not installed
    (problem,) = examine(inputs, ["data"])
    assert problem.rule == "grader-libraries"
    assert "the grader math cannot be started: math-verify is not installed" in problem.message
    assert "pip install math-verify" in problem.message
