"""``python -m tests.preflight.write_examples``: what each rule says, made from the cases of the tests.

The reference page shows one message of each rule. `slime/config/preflight/examples.json` holds them, and a test
compares it with what the rules say now. With ``--all`` it prints every message of every case, to be read.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slime.config import Config
from slime.config.preflight import RULES
from slime.config.preflight.registry import EXAMPLES
from slime.config.rule import Finding, Rule

from .bench import Bench
from .checkpoint_cases import CHECKPOINT_CASES, Change
from .data_cases import DATA_CASES
from .flag_cases import FLAG_CASES, READY, Values
from .host_cases import HOST_CASES

BY_ID = {rule.id: rule for rule in RULES}
# The case that shows a rule best, where it is not the first; some first ones name a port that differs every time.
BEST = {"ports": 1, "external-engines": 1, "enough-prompts": 1, "prompt-files": 1}


def said(rule: Rule, level: str, finding: Finding, folder: str) -> dict[str, Any]:
    """A finding as data, without the names of this machine."""

    def general(text: str) -> str:
        return text.replace(folder, "/data").replace("tests.preflight.user_hooks", "my_hooks")

    severity = finding.severity or rule.severity
    return {"level": level, "severity": severity, "message": general(finding.message), "hint": general(finding.hint)}


Listed = tuple[str, Callable[[], Iterator[dict[str, Any]]]]


def messages() -> Iterator[Listed]:
    """(rule, what makes its messages) of every case, in the order of the cases."""
    for name, bad, _, _ in FLAG_CASES:
        yield name, functools.partial(_of_flags, BY_ID[name], bad)
    for name, level, change, _, _ in (*CHECKPOINT_CASES, *DATA_CASES, *HOST_CASES):
        yield name, functools.partial(_of_bench, BY_ID[name], level, change)


def _of_flags(rule: Rule, bad: Values) -> Iterator[dict[str, Any]]:
    assert rule.cfg is not None
    for finding in rule.cfg(Config(**{**READY, **bad})):  # type: ignore[arg-type]
        yield said(rule, "cfg", finding, "/none")


def _of_bench(rule: Rule, level: str, change: Change) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        change(bench)
        for finding in getattr(rule, level)(bench.inputs()):
            yield said(rule, level, finding, folder)


def examples() -> dict[str, dict[str, Any]]:
    """One message of each rule that has cases, in the order of the rules."""
    listed: dict[str, list[Callable[[], Iterator[dict[str, Any]]]]] = {}
    for name, make in messages():
        listed.setdefault(name, []).append(make)
    return {rule.id: next(listed[rule.id][BEST.get(rule.id, 0)]()) for rule in RULES if rule.id in listed}


if __name__ == "__main__":
    if "--all" in sys.argv:
        for name, make in messages():
            for one in make():
                print(f"{one['severity']}: [{one['level']} {name}] {one['message']}\n    -> {one['hint']}")
    else:
        EXAMPLES.write_text(json.dumps(examples(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
