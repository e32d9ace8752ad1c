"""Random editing sessions: both engines keep the same log to the byte, and no state on the way is illegal.

A session edits, undoes, redoes, chooses presets, applies repairs, loads files, opens links and sends its own experiment
through a link and through an export. ``SLIME_SESSIONS=20000`` plays more of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slime.experiment import Catalog, ChoiceError, LoadError
from slime.experiment.comparison import differences
from slime.experiment.schema import ChoiceField
from slime.experiment.texts import Text, clean

from .corpus import link_paths, load_link
from .random_choices import random_raw, random_value
from .twin import canonical

SESSIONS = int(os.environ.get("SLIME_SESSIONS", "2000"))
RUNNER = Path(__file__).parents[1] / "js" / "sessions.mjs"
LIMIT = 100
LINKS = [load_link(path)["link"] for path in link_paths()]
TROUBLE = [
    ("pd", True),
    ("rollout", 3),
    ("nodes", 5),
    ("r3", True),
    ("maskPartial", True),
    ("straw", True),
    ("prefill", 3),
]
"""Edits that often lead to a finding with a repair."""
TYPES = {"enum": "str", "bool": "bool", "int": "int", "text": "str"}
State = dict[str, Any]


def _is_legal(choice: ChoiceField, value: Any) -> bool:
    if type(value).__name__ != TYPES[choice.type]:
        return False
    if choice.type == "enum":
        return value in [one.value for one in choice.values]
    if choice.type == "int":
        return (choice.minimum or 0) <= value <= (choice.maximum or 0)
    return choice.type != "text" or (len(value) <= choice.max_length and clean(value) == value)


class _History:
    """The plainest undo there is: a list of states and a place in it."""

    def __init__(self, state: State) -> None:
        self.entries: list[tuple[State, list[Text]]] = [(state, [])]
        self.at = 0

    @property
    def state(self) -> State:
        return self.entries[self.at][0]

    def commit(self, state: State, announcement: list[Text]) -> bool:
        if state == self.state:
            return False
        self.entries = [*self.entries[: self.at + 1], (state, announcement)][-(LIMIT + 1) :]
        self.at = len(self.entries) - 1
        return True


class _Session:
    """Plays one session in Python: the operations for JavaScript, and the log that it must keep, too."""

    def __init__(self, catalog: Catalog, dice: random.Random, counts: Counter[str]) -> None:
        self.catalog, self.dice, self.counts = catalog, dice, counts
        self.first = catalog.defaults()
        self.history = _History(self.first)
        self.operations: list[list[Any]] = []
        self.log: list[Any] = []

    def play(self) -> None:
        kinds = ["change"] * 12 + ["undo"] * 4 + ["redo"] * 2 + ["preset", "repair", "load", "share", "receive"]
        for _ in range(self.dice.randint(2, 8)):
            kind = self.dice.choice(kinds)
            if kind == "repair" and self.dice.random() < 0.8:
                self._do("change", *self.dice.choice(TROUBLE))
            self._do(kind)
        if self.dice.random() < 0.02:
            for _ in range(LIMIT + 5):
                self._do("change")
            for _ in range(self.dice.randint(0, LIMIT + 3)):
                self._do("undo")
        self._do("validate")
        for kind, chance in (("look", 0.1), ("files", 0.05), ("compare", 0.04), ("export", 0.05), ("restore", 0.1)):
            if self.dice.random() < chance:
                self._do(kind)

    def _do(self, kind: str, *values: Any) -> None:
        before = self.history.state
        operation = [kind, *(values or getattr(self, f"_{kind}_values", list)())]
        self.operations.append(operation)
        try:
            getattr(self, f"_{kind}")(*operation[1:])
            self.counts[kind] += 1
        except (ChoiceError, LoadError) as error:
            self.log.append({"refused": error.reason})
            self.counts[f"{kind} refused"] += 1
            assert self.history.state == before
        assert all(_is_legal(choice, self.history.state[choice.name]) for choice in self.catalog.tables.fields)

    def _keep(self, before: State, announcement: list[Text] | None) -> None:
        """Log what a step did; ``announcement`` None for a step that did nothing."""
        state = self.history.state
        did = None
        if announcement is not None:
            changes = differences(self.catalog.tables, before, state)
            did = {"changes": changes, "announcement": announcement}
        sizes = [self.history.at, len(self.history.entries) - 1 - self.history.at]
        self.log.append({"did": did, "state": state, "sizes": sizes})

    def _commit(self, state: State, announcement: list[Text]) -> None:
        before = self.history.state
        self._keep(before, announcement if self.history.commit(state, announcement) else None)

    def _change_values(self) -> list[Any]:
        choice = self.dice.choice(self.catalog.tables.fields)
        name = choice.name if self.dice.random() < 0.98 else self.dice.choice(["layuot", "__proto__", "step", ""])
        return [name, random_value(self.dice, choice)]

    def _change(self, name: str, value: Any) -> None:
        change = self.catalog.change(self.history.state, name, value)
        self.log.append(change.linked)
        self._commit(change.state, [one.announce for one in change.linked])

    def _undo(self) -> None:
        before, history = self.history.state, self.history
        announcement = history.entries[history.at][1] if history.at > 0 else None
        history.at = max(history.at - 1, 0)
        self._keep(before, announcement)

    def _redo(self) -> None:
        before, history = self.history.state, self.history
        is_last = history.at == len(history.entries) - 1
        history.at += not is_last
        self._keep(before, None if is_last else history.entries[history.at][1])

    def _preset_values(self) -> list[Any]:
        return [self.dice.choice([*(one.id for one in self.catalog.tables.presets), "nowhere"])]

    def _preset(self, preset: str) -> None:
        self._commit(self.catalog.preset(preset), [])

    def _repair_values(self) -> list[Any]:
        findings = self.catalog.validate(self.history.state).findings
        offers = [(finding.id, repair.id) for finding in findings for repair in finding.repairs]
        return list(self.dice.choice(offers)) if offers else ["E01", "nothing"]

    def _repair(self, finding: str, repair: str) -> None:
        plan = self.catalog.repair(self.history.state, finding, repair)
        self.log.append(plan)
        self._commit(plan.state, [plan.title])
        assert finding not in self.catalog.validate(self.history.state).ids("error")

    def _load_values(self) -> list[Any]:
        text = json.dumps(random_raw(self.dice, self.catalog), ensure_ascii=self.dice.random() < 0.5)
        return [text if self.dice.random() < 0.9 else text[: self.dice.randint(0, len(text))]]

    def _load(self, text: str) -> None:
        loaded = self.catalog.load(text)
        self.log.append(loaded)
        self._commit(loaded.state, [])
        assert self.catalog.sanitise(loaded.state).state == loaded.state

    def _receive_values(self) -> list[Any]:
        return [self.dice.choice(LINKS)]

    def _receive(self, link: str) -> None:
        received = self.catalog.receive(link)
        self.log.append(received)
        if received is not None:
            self._commit(received.b.state, [])
            assert self.catalog.sanitise(received.b.state).state == received.b.state

    def _share(self) -> None:
        state = self.history.state
        shared = self.catalog.share(state, self.first)
        self.log.append(shared)
        self._receive(shared.fragment)
        arrived = self.history.state
        assert [name for name in state if state[name] != arrived[name]] == shared.withheld
        assert not any(self.catalog.tables.by_name[name].share for name in shared.withheld if name != "mambaRatio")
        assert len(shared.fragment) < 1500

    def _export(self) -> None:
        state = self.history.state
        text = self.catalog.artifacts(state)["experiment.json"]
        self.log.append(text)
        self._load(text)
        assert self.history.state == state

    def _restore(self) -> None:
        self._commit(self.first, [])

    def _compare(self) -> None:
        self.log.append(self.catalog.compare(self.first, self.history.state))

    def _validate(self) -> None:
        self.log.append(self.catalog.validate(self.history.state))

    def _look(self) -> None:
        state = self.history.state
        self.log += [self.catalog.view(state), self.catalog.layout(state), self.catalog.memory(state)]

    def _files(self) -> None:
        self.log.append(self.catalog.artifacts(self.history.state))


def _javascript(catalog: dict[str, Any], sessions: Sequence[list[Any]], *options: str) -> list[str]:
    node = shutil.which("node")
    assert node is not None, "node (20 or later) must be on PATH: the page's engine is tested with it"
    lines = "".join(json.dumps(one) + "\n" for one in (catalog, *sessions))
    done = subprocess.run([node, str(RUNNER), *options], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_random_sessions_keep_the_same_log(catalog: Catalog) -> None:
    node = shutil.which("node")
    assert node is not None, "node (20 or later) must be on PATH: the page's engine is tested with it"
    counts: Counter[str] = Counter()
    expected = []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as answers:
        process = subprocess.Popen([node, str(RUNNER)], stdin=subprocess.PIPE, stdout=answers, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps(catalog.to_json()) + "\n")
        for number in range(SESSIONS):
            session = _play(catalog, number, counts)
            expected.append(hashlib.sha256(canonical(session.log).encode()).hexdigest())
            process.stdin.write(json.dumps(session.operations) + "\n")
        process.stdin.close()
        assert process.wait() == 0
        answers.seek(0)
        found = answers.read().split("\n")[:-1]
    assert len(found) == SESSIONS
    differing = [number for number in range(SESSIONS) if found[number] != expected[number]]
    if differing:
        session = _play(catalog, differing[0], Counter())
        (log,) = _javascript(catalog.to_json(), [session.operations], "--full")
        assert json.loads(log) == json.loads(canonical(session.log)), session.operations
        assert log == canonical(session.log), session.operations
    for kind in ("undo", "redo", "preset", "repair", "load", "share", "receive", "change refused", "load refused"):
        assert counts[kind] > SESSIONS // 50, (kind, counts)


def _play(catalog: Catalog, number: int, counts: Counter[str]) -> _Session:
    session = _Session(catalog, random.Random(20240701 + number), counts)
    session.play()
    return session
