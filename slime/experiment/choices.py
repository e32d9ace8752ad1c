"""Choices: from outside input to a state, and from one state to the next.

``sanitise`` reads anything (a share link, a file, a stored state) and always returns a complete, legal state plus a
list of what it could not use and why. ``change`` is one edit with everything that follows from it, in one step.
Nothing is ever coerced: ``"8"`` is no integer, ``1`` is no boolean, ``null`` is no text. A number written ``8.0`` is
the integer 8, as in JSON Schema, because JavaScript cannot see the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from slime.experiment.errors import ChoiceError, ExpressionError
from slime.experiment.expression import Expression, Value
from slime.experiment.functions import SAFE_INTEGER
from slime.experiment.messages import MESSAGES
from slime.experiment.schema import ChoiceField, Transition
from slime.experiment.tables import Scalar, State, Tables
from slime.experiment.texts import Text, both, clean, fill, is_well_formed, nearest, shorten

MAXIMUM_FOREIGN = 64
"""Foreign keys that are named one by one: finding the nearest name takes time, and nobody reads thousands."""
IgnoredKind = Literal["unknown", "invalid", "retired", "cleaned", "reset", "private"]
LOST: tuple[IgnoredKind, ...] = ("unknown", "invalid")
"""What makes a file unusable: something that was written is not in the experiment. The other kinds are notes."""


@dataclass(frozen=True)
class Ignored:
    """One key of outside input that did not arrive as written.

    ``kind``: ``unknown`` key, ``invalid`` value (both lost), ``retired`` key (no choice any more), ``cleaned`` text, a
    choice that was ``reset`` because the model does not have it, or a ``private`` one that stood in a link. ``nearest``
    is the closest legal key or value.
    """

    key: str
    kind: IgnoredKind
    reason: Text
    nearest: str | None


@dataclass(frozen=True)
class Sanitised:
    """A complete, legal state, and what of the input did not arrive."""

    state: State
    ignored: list[Ignored]


@dataclass(frozen=True)
class Linked:
    """A choice that changed because another one did."""

    field: str
    before: Scalar
    after: Scalar
    announce: Text


@dataclass(frozen=True)
class Change:
    """The state after one edit, and what else changed with it."""

    state: State
    linked: list[Linked]


@dataclass(frozen=True)
class Problem:
    """Why a value is not legal for a choice, and the nearest legal one."""

    reason: Text
    nearest: str | None


def kind_of(value: Any) -> Text:
    """What a foreign value is, in words."""
    if value is None:
        return MESSAGES["kind_null"]
    if isinstance(value, bool):
        return MESSAGES["kind_bool"]
    if isinstance(value, (int, float)):
        whole = value == value and abs(value) != float("inf") and int(value) == value
        return MESSAGES["kind_number" if not whole else "kind_int" if abs(value) <= SAFE_INTEGER else "kind_huge"]
    if isinstance(value, str):
        return MESSAGES["kind_text"]
    return MESSAGES["kind_mapping" if isinstance(value, Mapping) else "kind_list"]


def read_value(choice: ChoiceField, value: Any) -> Scalar | Problem:
    """``value`` as this choice stores it, or why it cannot."""
    wanted = {"enum": "kind_text", "text": "kind_text", "bool": "kind_bool", "int": "kind_int"}[choice.type]
    got = kind_of(value)
    if got != MESSAGES[wanted]:
        return Problem(fill(MESSAGES["wrong_type"], {"key": choice.name, "wanted": MESSAGES[wanted], "got": got}), None)
    if choice.type == "bool":
        return bool(value)
    if choice.type == "int":
        return _read_int(choice, int(value))
    return _read_text(choice, value) if choice.type == "text" else _read_enum(choice, value)


def _read_int(choice: ChoiceField, value: int) -> Scalar | Problem:
    low, high = choice.minimum or 0, choice.maximum or 0
    if low <= value <= high:
        return value
    slots: dict[str, Value | Text] = {"key": choice.name, "got": value, "minimum": low, "maximum": high}
    return Problem(fill(MESSAGES["out_of_range"], slots), str(min(max(value, low), high)))


def _read_enum(choice: ChoiceField, value: str) -> Scalar | Problem:
    legal = [one.value for one in choice.values]
    if value in legal:
        return value
    slots = {"key": choice.name, "got": shorten(value), "wanted": ", ".join(legal)}
    return Problem(fill(MESSAGES["not_a_value"], slots), nearest(value, legal))


def _read_text(choice: ChoiceField, value: str) -> Scalar | Problem:
    if not is_well_formed(value):
        return Problem(fill(MESSAGES["malformed"], {"key": choice.name}), None)
    text = clean(value)
    if len(text) <= choice.max_length:
        return text
    slots: dict[str, Value | Text] = {"key": choice.name, "got": len(text), "maximum": choice.max_length}
    return Problem(fill(MESSAGES["too_long"], slots), None)


def defaults(tables: Tables) -> State:
    """The starting state: the defaults of every choice under the default model."""
    state: State = {choice.name: choice.default for choice in tables.fields}
    state.update(tables.model_defaults[str(state["model"])])
    return state


def unwrap(raw: Any) -> tuple[Any, Ignored | None]:
    """The choices inside an ``experiment.json`` (schema 1 or 2), or ``raw`` itself.

    Only ``choices`` is used: what an imported file says about its validation or origin is never trusted.
    """
    if not isinstance(raw, Mapping) or "schema" not in raw:
        return raw, None
    number = raw["schema"]
    if isinstance(number, bool) or number not in (1, 2):
        legal_int = kind_of(number) == MESSAGES["kind_int"]
        got = Text(str(int(number)), str(int(number))) if legal_int else kind_of(number)
        return {}, Ignored("schema", "invalid", fill(MESSAGES["schema"], {"got": got}), None)
    if "choices" not in raw:
        return {}, Ignored("choices", "invalid", without_choices(raw)[0], None)
    return raw["choices"], None


def without_choices(raw: Mapping[Any, Any]) -> tuple[Text, str | None]:
    """Why an export without ``choices`` is refused, and the key that looks like a misspelling of it."""
    close = nearest("choices", sorted(map(str, raw)))
    if close is None:
        return MESSAGES["no_choices"], None
    return fill(MESSAGES["no_choices_near"], {"near": shorten(close)}), close


def sanitise(tables: Tables, raw: Any) -> Sanitised:
    """Read outside input. Never raises; every key that did not arrive as written is in ``ignored``."""
    choices, problem = unwrap(raw)
    ignored = [problem] if problem else []
    state = defaults(tables)
    if not isinstance(choices, Mapping):
        reason = fill(MESSAGES["not_mapping"], {"got": kind_of(choices)})
        return Sanitised(state, [*ignored, Ignored("", "invalid", reason, None)])
    given = {key: choices[key] for key in tables.by_name if key in choices}
    model = given.get("model")
    if isinstance(model, str):
        given["model"] = tables.facts.legacy.get(model, model)
        if given["model"] in tables.facts.launch:
            state = change(tables, state, "model", given["model"]).state
    for choice in tables.fields:
        if choice.name in given:
            _take(choice, given[choice.name], state, ignored)
    ignored += _foreign_keys(tables, [str(key) for key in choices if key not in tables.by_name])
    for linked in _normalise(tables, state):
        ignored.append(Ignored(linked.field, "reset", linked.announce, None))
    return Sanitised(state, ignored)


def _take(choice: ChoiceField, value: Any, state: State, ignored: list[Ignored]) -> None:
    read = read_value(choice, value)
    if isinstance(read, Problem):
        ignored.append(Ignored(choice.name, "invalid", read.reason, read.nearest))
        return
    state[choice.name] = read
    if choice.type == "text" and read != value:
        ignored.append(Ignored(choice.name, "cleaned", fill(MESSAGES["cleaned"], {"key": choice.name}), None))


def _foreign_keys(tables: Tables, keys: list[str]) -> list[Ignored]:
    retired = {one.name: one for one in tables.retired}
    found = []
    for key in sorted(keys)[:MAXIMUM_FOREIGN]:
        if key in retired:
            found.append(Ignored(key, "retired", both(retired[key].why), None))
        else:
            reason = fill(MESSAGES["unknown"], {"key": shorten(key)})
            found.append(Ignored(shorten(key), "unknown", reason, nearest(key, tables.by_name)))
    if len(keys) > MAXIMUM_FOREIGN:
        more = len(keys) - MAXIMUM_FOREIGN
        found.append(Ignored("…", "unknown", fill(MESSAGES["more_unknown"], {"more": more}), None))
    return found


def change(tables: Tables, state: State, name: str, value: Any) -> Change:
    """One edit and what follows from it.

    ``state`` is not modified. Raises ``ChoiceError`` for an unknown choice, a wrong type or a value outside the limits;
    the old state stays valid. An edit that changes nothing changes nothing else either.
    """
    if name not in tables.by_name:
        close = nearest(name, tables.by_name)
        raise ChoiceError(name, fill(MESSAGES["unknown"], {"key": shorten(name)}), close)
    read = read_value(tables.by_name[name], value)
    if isinstance(read, Problem):
        raise ChoiceError(name, read.reason, read.nearest)
    before = state[name]
    after = dict(state)
    if read == before:
        return Change(after, [])
    after[name] = read
    linked: list[Linked] = []
    if name == "model":
        announce = fill(MESSAGES["follows_model"], tables.fact_values[str(read)])
        linked += _assign(tables, after, _followed(tables, after, str(before), str(read)), announce)
    for row in tables.transitions:
        if row.on == name:
            linked += _apply(tables, after, row, {"before": before})
    linked += _normalise(tables, after)
    return Change(after, _merge(linked))


def _followed(tables: Tables, state: State, old: str, new: str) -> dict[str, Scalar]:
    """The defaults of model ``new`` that apply when it replaces ``old``; see ``ChoiceField.keep_edited``."""
    before = tables.model_defaults[old]
    return {
        name: value
        for name, value in tables.model_defaults[new].items()
        if not tables.by_name[name].keep_edited or state[name] == before[name]
    }


def _normalise(tables: Tables, state: State) -> list[Linked]:
    """Run the ``on: sanitise`` rows on ``state``, in place."""
    return [link for row in tables.transitions if row.on == "sanitise" for link in _apply(tables, state, row, {})]


def _apply(tables: Tables, state: State, row: Transition, extra: Mapping[str, Value]) -> list[Linked]:
    names = tables.names(state, **extra)
    if not row.when.test(names):
        return []
    return _assign(tables, state, evaluate_set(tables, row.set, names), fill(row.announce, names))


def evaluate_set(tables: Tables, wanted: Mapping[str, Expression], names: Mapping[str, Value]) -> dict[str, Scalar]:
    """The values of a ``set`` mapping, each legal for its choice, in the order of the choices.

    Raises ``ExpressionError`` with code ``range`` when one is outside the limits of its choice.
    """
    values: dict[str, Scalar] = {}
    for choice in tables.fields:
        if choice.name in wanted:
            read = read_value(choice, wanted[choice.name].evaluate(names))
            if isinstance(read, Problem):
                raise ExpressionError("range", read.reason.en)
            values[choice.name] = read
    return values


def _assign(tables: Tables, state: State, values: Mapping[str, Scalar], announce: Text) -> list[Linked]:
    linked = []
    for choice in tables.fields:
        if choice.name in values and state[choice.name] != values[choice.name]:
            linked.append(Linked(choice.name, state[choice.name], values[choice.name], announce))
            state[choice.name] = values[choice.name]
    return linked


def _merge(linked: list[Linked]) -> list[Linked]:
    """One entry per choice: from its first value to its last, with the last reason."""
    merged: dict[str, Linked] = {}
    for link in linked:
        first = merged.get(link.field, link)
        merged[link.field] = Linked(link.field, first.before, link.after, link.announce)
    return [link for link in merged.values() if link.before != link.after]


def normalise(tables: Tables, state: State) -> State:
    """``state`` after the ``on: sanitise`` rows."""
    after = dict(state)
    _normalise(tables, after)
    return after


def preset(tables: Tables, preset_id: str) -> State:
    """The state of a named starting point. Raises ``ChoiceError`` for an unknown name."""
    for one in tables.presets:
        if one.id == preset_id:
            return sanitise(tables, one.set).state
    known = [one.id for one in tables.presets]
    slots = {"key": "preset", "got": shorten(preset_id), "wanted": ", ".join(known)}
    raise ChoiceError("preset", fill(MESSAGES["not_a_value"], slots), nearest(preset_id, known))
