"""1,000 random experiments with edits and repairs: Python and JavaScript give the same bytes.

Each is looked at whole twice; `test_sessions.py` plays longer ones. ``SLIME_EXPERIMENTS=20000`` plays more of them.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from slime.experiment import Catalog, ChoiceError
from slime.experiment.browser import readers_catalog

from .corpus import PROVENANCE
from .random_choices import random_raw, random_value
from .twin import ask, canonical

EXPERIMENTS = int(os.environ.get("SLIME_EXPERIMENTS", "1000"))


class _Session:
    """Asks Python at once and remembers the request for JavaScript."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.requests: list[list[Any]] = []
        self.expected: list[str] = []

    def call(self, method: str, *arguments: Any) -> Any:
        """Python's answer, or None when it refused."""
        self.requests.append([method, *arguments])
        try:
            value = getattr(self.catalog, method)(*arguments)
        except ChoiceError as error:
            refused = {"refused": error.reason, "nearest": error.nearest, "field": error.field}
            self.expected.append(canonical(refused))
            return None
        self.expected.append(canonical({"value": value}))
        return value

    def look(self, state: dict[str, Any]) -> Any:
        """Everything that a page shows of a state; returns the validation."""
        validation = self.call("validate", state)
        for method in ("view", "layout", "memory", "arguments", "environment"):
            self.call(method, state)
        self.call("artifacts", state, PROVENANCE)
        return validation


def _play(session: _Session, dice: random.Random) -> None:
    """One experiment: read, look, edit a few times, look, try every repair that is offered."""
    state = session.call("sanitise", random_raw(dice, session.catalog)).state
    session.look(state)
    for _ in range(dice.randint(0, 4)):
        choice = dice.choice(session.catalog.tables.fields)
        changed = session.call("change", state, choice.name, random_value(dice, choice))
        state = changed.state if changed is not None else state
    for finding in session.look(state).findings:
        for repair in finding.repairs:
            session.call("repair", state, finding.id, repair.id)
    session.call("repair", state, "E01", "none")


@pytest.mark.slow
def test_both_engines_give_the_same_bytes(catalog: Catalog) -> None:
    dice = random.Random(20240603)
    session = _Session(catalog)
    for _ in range(EXPERIMENTS):
        _play(session, dice)
    for preset in [*(one.id for one in catalog.tables.presets), "none"]:
        session.call("preset", preset)
    session.call("defaults")
    answers = ask(catalog.to_json(), session.requests)
    for request, expected, answer in zip(session.requests, session.expected, answers, strict=True):
        assert answer == expected, request
    repaired = sum(
        request[0] == "repair" and '"value"' in answer
        for request, answer in zip(session.requests, answers, strict=True)
    )
    assert repaired > EXPERIMENTS // 10, "the random experiments must reach the repairs"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_page_of_one_language_writes_the_same_files(catalog: Catalog, language: str) -> None:
    """The other language's sentences are empty in the page's data; the files and what is said here are the same."""
    dice = random.Random(20240611)
    states = [catalog.sanitise(random_raw(dice, catalog)).state for _ in range(40)]
    states += [catalog.preset(one.id) for one in catalog.tables.presets]
    data = readers_catalog(catalog.to_json(), language)
    asked = [(method, state) for state in states for method in ("artifacts", "validate", "memory")]
    for (method, state), answer in zip(asked, ask(data, asked), strict=True):
        theirs, ours = json.loads(answer)["value"], json.loads(canonical(getattr(catalog, method)(state)))
        assert _said(theirs, language) == _said(ours, language), method


def _said(value: Any, language: str) -> Any:
    """``value`` with every pair of sentences reduced to one language; files have none."""
    if isinstance(value, list):
        return [_said(one, language) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"zh", "en"}:
        return value[language]
    return {key: _said(one, language) for key, one in value.items()}
