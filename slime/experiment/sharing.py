"""Links: an experiment in the fragment of an address, ``#lab=1;first;layout=separate``.

A link names its version, a starting point and every shareable choice that differs from it. Only choices marked
``share: true`` travel, and of texts only decimal numbers: any other text could be a path, an address or a hook. The
starting points of a version are frozen in ``links.yaml``, so a published link keeps its meaning when presets or recipes
change. ``lab-a=`` holds a second experiment, the A of a comparison, under the same limits. Links of the form
``experiment=<JSON>&baseline=<JSON>`` come from earlier pages and are read as version 0.

The JavaScript twin is ``sphinx_slime_lab/js/src/core/sharing.js``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from slime.experiment.choices import Ignored, IgnoredKind, Problem, read_value, sanitise
from slime.experiment.errors import LoadError
from slime.experiment.expression import Value
from slime.experiment.importing import known_mapping
from slime.experiment.json_text import read_json
from slime.experiment.messages import MESSAGES
from slime.experiment.predicates import is_positive_decimal
from slime.experiment.schema import ChoiceField
from slime.experiment.tables import Scalar, State, Tables
from slime.experiment.texts import Text, fill, nearest, shorten

MAXIMUM_CHARACTERS = 8192
MAXIMUM_PARTS = 128
OWN, BASELINE = "lab", "lab-a"
EARLIER_OWN, EARLIER_BASELINE = "experiment", "baseline"
_VERSION = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,14}", re.ASCII)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)


@dataclass(frozen=True)
class Shared:
    """A link, and the choices whose values its reader will not get (``withheld``; ``withheld_a`` for A)."""

    fragment: str
    withheld: list[str]
    withheld_a: list[str]


@dataclass(frozen=True)
class Side:
    """One experiment of a link: a complete, legal state, and what of the link did not arrive."""

    state: State
    ignored: list[Ignored]


@dataclass(frozen=True)
class Received:
    """A link that was read: its version, the experiment and, in a comparison, A."""

    version: int
    b: Side
    a: Side | None


def share(tables: Tables, state: State, a: State | None = None) -> Shared:
    """The link of ``state``, and of ``a`` beside it. The fragment has no leading ``#``."""
    own = _encode(tables, state)
    fragment = f"{OWN}={own}"
    if a is None:
        return Shared(fragment, _withheld(tables, state, own), [])
    other = _encode(tables, a)
    return Shared(f"{fragment}&{BASELINE}={other}", _withheld(tables, state, own), _withheld(tables, a, other))


def receive(tables: Tables, link: str) -> Received | None:
    """Read an address or its fragment; None when no experiment stands in it.

    Raises ``LoadError`` when it cannot be read as a whole. A key or value that cannot be used is in ``ignored``.
    """
    if len(link) > MAXIMUM_CHARACTERS:
        raise LoadError(fill(MESSAGES["link_large"], {"maximum": MAXIMUM_CHARACTERS}))
    found = _parameters(link.split("#", 1)[-1])
    if OWN in found:
        version, b = _decode(tables, found[OWN])
        a = _decode(tables, found[BASELINE])[1] if BASELINE in found else None
        return Received(version, b, a)
    if EARLIER_OWN in found:
        a = _decode_earlier(tables, found[EARLIER_BASELINE]) if EARLIER_BASELINE in found else None
        return Received(0, _decode_earlier(tables, found[EARLIER_OWN]), a)
    return None


def _parameters(fragment: str) -> dict[str, str]:
    """The parameters that are a link's, percent-decoded; others belong to someone else."""
    found: dict[str, str] = {}
    for part in fragment.split("&"):
        name, equals, value = part.partition("=")
        if not equals or name not in (OWN, BASELINE, EARLIER_OWN, EARLIER_BASELINE):
            continue
        if name in found:
            raise LoadError(fill(MESSAGES["link_twice"], {"key": name}))
        if _BAD_PERCENT.search(value):
            raise LoadError(MESSAGES["link_encoding"])
        try:
            found[name] = unquote(value, errors="strict")
        except UnicodeDecodeError:
            raise LoadError(MESSAGES["link_encoding"]) from None
    return found


def token(value: Scalar) -> str:
    """A value as it stands in a link."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _travels(choice: ChoiceField, value: Scalar) -> bool:
    return choice.share and (choice.type != "text" or value == "" or is_positive_decimal(str(value)))


def _encode(tables: Tables, state: State) -> str:
    """The shortest link over the starting points of the newest version; the first of equals."""
    best: str | None = None
    for one in tables.links.baselines:
        if one.version != tables.links.version:
            continue
        parts = [str(one.version), one.preset]
        for choice in tables.fields:
            value = state[choice.name]
            if _travels(choice, value) and (choice.name not in one.values or one.values[choice.name] != value):
                parts.append(f"{choice.name}={quote(token(value), safe='')}")
        text = ";".join(parts)
        if best is None or len(text) < len(best):
            best = text
    return str(best)


def _withheld(tables: Tables, state: State, encoded: str) -> list[str]:
    arrived = _decode(tables, unquote(encoded))[1].state
    return [choice.name for choice in tables.fields if arrived[choice.name] != state[choice.name]]


def _decode(tables: Tables, text: str) -> tuple[int, Side]:
    parts = text.split(";")
    if len(parts) > MAXIMUM_PARTS:
        raise LoadError(fill(MESSAGES["link_large"], {"maximum": MAXIMUM_CHARACTERS}))
    version = _version(tables, parts[0])
    starts = {one.preset: one.values for one in tables.links.baselines if one.version == version}
    start = parts[1] if len(parts) > 1 else ""
    if start not in starts:
        slots: dict[str, Value | Text] = {"version": version, "got": shorten(start), "wanted": ", ".join(starts)}
        raise LoadError(fill(MESSAGES["link_start"], slots))
    ignored: list[Ignored] = []
    given: dict[str, str] = {}
    for part in parts[2:]:
        name, equals, value = part.partition("=")
        if not equals:
            ignored.append(_problem("link_part", part, {}))
        elif name in given:
            ignored.append(_problem("link_twice", name, {}))
        else:
            given[name] = value
    before = {name: token(value) for name, value in starts[start].items()}
    before = _migrate(tables, version, before, is_start=True)
    return version, _read_side(tables, before, _migrate(tables, version, given), ignored)


def _version(tables: Tables, text: str) -> int:
    if _VERSION.fullmatch(text) is None:
        raise LoadError(fill(MESSAGES["link_version"], {"got": shorten(text)}))
    version = int(text)
    if version > tables.links.version:
        raise LoadError(fill(MESSAGES["link_newer"], {"got": version, "known": tables.links.version}))
    return version


def _migrate(tables: Tables, version: int, given: dict[str, str], *, is_start: bool = False) -> dict[str, str]:
    """``given`` in the names and words of the newest version; a starting point also gets what ``set`` writes down."""
    for number in range(version, tables.links.version):
        for migration in tables.links.migrations:
            if migration.from_ != number:
                continue
            words = {name: migration.values.get(name, {}).get(value, value) for name, value in given.items()}
            kept = {name: value for name, value in words.items() if name not in migration.drop}
            given = {migration.rename.get(name, name): value for name, value in kept.items()}
            given = {**migration.set, **given} if is_start else given
    return given


def _decode_earlier(tables: Tables, text: str) -> Side:
    """Version 0: all choices of an earlier page as JSON."""
    raw = known_mapping(tables, read_json(text))
    ignored: list[Ignored] = []
    given: dict[str, str] = {}
    for key in sorted(raw):
        value = raw[key]
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            value = int(value)
        if isinstance(value, (str, bool, int)):
            given[key] = token(value)
        elif key in tables.by_name:
            read = read_value(tables.by_name[key], value)
            if isinstance(read, Problem):  # a list, a mapping, null or a fraction never fits
                ignored.append(Ignored(key, "invalid", read.reason, read.nearest))
        else:
            given[key] = ""
    return _read_side(tables, _migrate(tables, 1, {}, is_start=True), _migrate(tables, 1, given), ignored)


def _read_side(tables: Tables, before: dict[str, str], given: dict[str, str], ignored: list[Ignored]) -> Side:
    """Read ``given`` over ``before``, the starting point; what cannot be read leaves the starting point's value."""
    values: dict[str, Scalar] = {}
    for name, text in before.items():
        if name in tables.by_name:
            _take(tables, name, text, values, ignored)
    retired = {one.name: one for one in tables.retired}
    for name, text in given.items():
        if name in tables.by_name:
            _take(tables, name, text, values, ignored)
        elif name in retired:
            why = retired[name].why
            ignored.append(Ignored(name, "retired", Text(why.zh, why.en), None))
        else:
            reason = fill(MESSAGES["unknown"], {"key": shorten(name)})
            ignored.append(Ignored(shorten(name), "unknown", reason, nearest(name, tables.by_name)))
    result = sanitise(tables, values)
    return Side(result.state, [*ignored, *result.ignored])


def _take(tables: Tables, name: str, text: str, values: dict[str, Scalar], ignored: list[Ignored]) -> None:
    choice = tables.by_name[name]
    if not choice.share:
        ignored.append(_problem("link_private", name, {}, kind="private"))
        return
    value = _parse(choice, text)
    if name == "model":
        value = tables.facts.legacy.get(text, text)
    if value is None:
        wanted = {"int": "kind_int", "bool": "kind_bool"}.get(choice.type, "kind_decimal")
        ignored.append(_problem("link_value", name, {"got": shorten(text), "wanted": MESSAGES[wanted]}))
        return
    read = read_value(choice, value)
    if isinstance(read, Problem):
        ignored.append(Ignored(name, "invalid", read.reason, read.nearest))
    else:
        values[name] = read


def _parse(choice: ChoiceField, text: str) -> Scalar | None:
    """The value of a choice's own type, or None; nothing is guessed."""
    if choice.type == "bool":
        return {"true": True, "false": False}.get(text)
    if choice.type == "int":
        return int(text) if _INTEGER.fullmatch(text) else None
    return text if choice.type == "enum" or text == "" or is_positive_decimal(text) else None


def _problem(message: str, name: str, slots: dict[str, Value | Text], kind: IgnoredKind = "invalid") -> Ignored:
    return Ignored(shorten(name), kind, fill(MESSAGES[message], {"key": shorten(name), **slots}), None)
