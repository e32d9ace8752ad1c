"""Checks of the data against itself: names, enum words, slots, and a value for every expression under every model.

A typo in a rule would otherwise be a check that never speaks. Each function gives ``file:line`` messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slime.config.yaml_lines import Path as KeyPath
from slime.experiment.artifacts import BLOCK_LINE, BUILT_IN_BLOCKS, BUILT_IN_SLOTS, SLOT
from slime.experiment.choices import Problem, read_value
from slime.experiment.environment import FACTS, IMAGE_FACTS
from slime.experiment.errors import CatalogError
from slime.experiment.expression import Expression
from slime.experiment.facts_schema import Words
from slime.experiment.link_checks import check_links
from slime.experiment.place import Place
from slime.experiment.tables import ACCOUNTING, Tables
from slime.experiment.texts import nearest, slots_of


@dataclass(frozen=True)
class _Site:
    """One expression, where it stands, and the extra names that exist there."""

    place: Place
    path: KeyPath
    expression: Expression
    extra: tuple[str, ...] = ()


def check_tables(tables: Tables, places: Mapping[str, Place]) -> None:
    """Raise ``CatalogError`` with every contradiction found."""
    problems = [
        *_check_fields(tables, places["fields"]),
        *_check_references(tables, places),
        *_check_slots(tables, places),
        *_check_templates(tables),
        *check_links(tables, places["links"]),
    ]
    for site in _sites(tables, places):
        problems += _check_expression(tables, site)
    if problems:
        raise CatalogError("\n".join(problems))


def _unknown(name: str, known: Iterable[str], kind: str) -> str:
    close = nearest(name, known)
    return f"there is no {kind} {name}" + (f"; did you mean {close}?" if close else "")


def _check_fields(tables: Tables, place: Place) -> Iterator[str]:
    steps = [step.id for step in tables.steps]
    taken = {*FACTS, *IMAGE_FACTS}
    for index, choice in enumerate(tables.fields):
        if choice.step not in steps:
            yield place.at(("fields", index, "step"), _unknown(choice.step, steps, "step"))
        if choice.name in taken:
            yield place.at(("fields", index, "name"), f"the name {choice.name} is taken by a fact or another choice")
        taken.add(choice.name)
        for number, option in enumerate(choice.options):
            path = ("fields", index, "options", number, "value")
            read = read_value(choice, option.value)
            if isinstance(read, Problem):
                yield place.at(path, read.reason.en)
    for index, derived in enumerate(tables.derived):
        if derived.name in taken:
            yield place.at(("derived", index, "name"), f"the name {derived.name} is taken")
        taken.add(derived.name)
    missing = [name for name in ACCOUNTING if name not in {one.name for one in tables.derived}]
    if missing:
        yield place.at(("derived",), f"the derived values {', '.join(missing)} are missing; accounting needs them")
    if "model" not in tables.by_name:
        yield place.at(("fields",), "the choice model is missing; every experiment has one")
    if "image" not in tables.by_name:
        yield place.at(("fields",), "the choice image is missing; the names of images are read by it")


def _check_references(tables: Tables, places: Mapping[str, Place]) -> Iterator[str]:
    """Names of choices and groups outside expressions."""
    names = list(tables.by_name)
    for index, row in enumerate(tables.transitions):
        if row.on != "sanitise" and row.on not in names:
            yield places["transitions"].at(("transitions", index, "on"), _unknown(row.on, names, "choice"))
        for key in row.set:
            if key not in names:
                yield places["transitions"].at(("transitions", index, "set", key), _unknown(key, names, "choice"))
    for index, rule in enumerate(tables.rules):
        for key in (*rule.fields_, *rule.each):
            if key not in names:
                yield places["rules"].at(("rules", index), _unknown(key, names, "choice"))
        for number, repair in enumerate(rule.repair):
            for key in repair.set:
                if key not in names:
                    where: KeyPath = ("rules", index, "repair", number, "set", key)
                    yield places["rules"].at(where, _unknown(key, names, "choice"))
    groups = [group.id for group in tables.arguments.groups]
    for index, argument in enumerate(tables.arguments.arguments):
        path: KeyPath = ("arguments", index)
        if argument.group not in groups:
            yield places["arguments"].at((*path, "group"), _unknown(argument.group, groups, "group"))
        for key in argument.fields_:
            if key not in names:
                yield places["arguments"].at((*path, "fields"), _unknown(key, names, "choice"))
        for shell in argument.shell_words:
            if shell not in tables.arguments.shell_words:
                yield places["arguments"].at((*path, "shell"), f"{shell} is not in shell_words, the closed list")
    for index, preset in enumerate(tables.presets):
        for key in preset.set:
            if key not in names:
                yield places["presets"].at(("presets", index, "set", key), _unknown(key, names, "choice"))
    presets = [preset.id for preset in tables.presets]
    if tables.tour.start not in presets:
        yield places["tour"].at(("start",), _unknown(tables.tour.start, presets, "preset"))


def _check_slots(tables: Tables, places: Mapping[str, Place]) -> Iterator[str]:
    """The ``{slots}`` of messages; both languages use the same ones."""
    known = {*tables.by_name, *FACTS, *IMAGE_FACTS, *(one.name for one in tables.derived)}

    def check(place: Place, path: KeyPath, words: Words, extra: Iterable[str]) -> Iterator[str]:
        used = {language: set(slots_of(getattr(words, language))) for language in ("zh", "en")}
        if used["zh"] != used["en"]:
            yield place.at(path, f"zh and en use different slots: {', '.join(sorted(used['zh'] ^ used['en']))}")
        for slot in sorted((used["zh"] | used["en"]) - known - set(extra)):
            yield place.at(path, _unknown(slot, known, "slot"))

    for index, rule in enumerate(tables.rules):
        extra = [*rule.values, *(("label", "field", "value") if rule.each else ())]
        yield from check(places["rules"], ("rules", index, "message"), rule.message, extra)
        for number, repair in enumerate(rule.repair):
            yield from check(places["rules"], ("rules", index, "repair", number, "title"), repair.title, ())
    for index, row in enumerate(tables.transitions):
        yield from check(places["transitions"], ("transitions", index, "announce"), row.announce, ("before",))


def _check_templates(tables: Tables) -> Iterator[str]:
    """The ``@SLOTS@`` of the scripts and blocks, and that no user's text stands unquoted."""
    arguments = tables.arguments
    inline = {*arguments.slots, *BUILT_IN_SLOTS}
    blocks = {*arguments.blocks, *BUILT_IN_BLOCKS}
    for name, slot in arguments.slots.items():
        if slot.as_ == "plain" and tables.carries_user_text(slot.value):
            yield f"recipes/experiment/arguments.yaml: slots.{name}: a text that a user typed may not stand unquoted"
    texts = [(f"recipes/experiment/{name}", text) for name, text in tables.templates.items()]
    for name, parts in arguments.blocks.items():
        texts += [(f"recipes/experiment/arguments.yaml: blocks.{name}", part.text) for part in parts]
    for where, text in texts:
        for number, line in enumerate(text.split("\n"), 1):
            alone = BLOCK_LINE.fullmatch(line)
            for slot_name in SLOT.findall(line):
                if slot_name not in inline and not (alone and slot_name in blocks):
                    yield f"{where}:{number}: {_unknown(slot_name, inline | blocks, 'slot')}"
    for name in arguments.blocks:
        if name in _reachable(tables, name):
            yield f"recipes/experiment/arguments.yaml: blocks.{name}: the block contains itself"


def _reachable(tables: Tables, start: str) -> set[str]:
    """The blocks that stand inside block ``start``, at any depth."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for part in tables.arguments.blocks.get(waiting.pop(), ()):
            inner = set(SLOT.findall(part.text)) & set(tables.arguments.blocks)
            waiting += sorted(inner - found)
            found |= inner
    return found


def _sites(tables: Tables, places: Mapping[str, Place]) -> Iterator[_Site]:
    yield from _choice_sites(tables, places["fields"])
    for index, row in enumerate(tables.transitions):
        extra = ("before",) if row.on != "sanitise" else ()
        base = ("transitions", index)
        yield _Site(places["transitions"], (*base, "when"), row.when, extra)
        for key, value in row.set.items():
            yield _Site(places["transitions"], (*base, "set", key), value, extra)
    for index, rule in enumerate(tables.rules):
        yield from _rule_sites(rule, ("rules", index), places["rules"])
    yield from _argument_sites(tables, places["arguments"])
    yield from _memory_sites(tables, places["memory"])


def _memory_sites(tables: Tables, place: Place) -> Iterator[_Site]:
    """Each expression may read what stands before it: common values, then a rank's own, then the phase's."""
    common: list[str] = []
    for index, derived in enumerate(tables.memory.derived):
        yield _Site(place, ("derived", index, "value"), derived.value, tuple(common))
        common.append(derived.name)
    for number, phase in enumerate(tables.memory.phases):
        for index, rank in enumerate(phase.ranks):
            base: KeyPath = ("phases", number, "ranks", index)
            yield _Site(place, (*base, "when"), rank.when, tuple(common))
            known = list(common)
            for where, row in [
                *(((*base, "values", at, "value"), one) for at, one in enumerate(rank.values)),
                *((("phases", number, "derived", at, "value"), one) for at, one in enumerate(phase.derived)),
            ]:
                yield _Site(place, where, row.value, tuple(known))
                known.append(row.name)
            for at, term in enumerate(phase.terms):
                yield _Site(place, ("phases", number, "terms", at, "when"), term.when, tuple(known))
                yield _Site(place, ("phases", number, "terms", at, "bytes"), term.bytes, tuple(known))


def _choice_sites(tables: Tables, place: Place) -> Iterator[_Site]:
    for index, choice in enumerate(tables.fields):
        yield _Site(place, ("fields", index, "visible"), choice.visible)
        for number, option in enumerate(choice.options):
            yield _Site(place, ("fields", index, "options", number, "when"), option.when)
    for index, derived in enumerate(tables.derived):
        later = {one.name for one in tables.derived[index:]}
        for name in sorted(derived.value.names() & later):
            raise CatalogError(place.at(("derived", index, "value"), f"{name} is defined later; move it up"))
        yield _Site(place, ("derived", index, "value"), derived.value)


def _rule_sites(rule: Any, base: KeyPath, place: Place) -> Iterator[_Site]:
    extra = ("field", "value") if rule.each else ()
    yield _Site(place, (*base, "when"), rule.when, extra)
    for key, value in rule.values.items():
        yield _Site(place, (*base, "values", key), value, extra)
    for number, repair in enumerate(rule.repair):
        yield _Site(place, (*base, "repair", number, "when"), repair.when)
        for key, value in repair.set.items():
            yield _Site(place, (*base, "repair", number, "set", key), value)


def _argument_sites(tables: Tables, place: Place) -> Iterator[_Site]:
    arguments = tables.arguments
    for index, row in enumerate(arguments.arguments):
        for key, expression in (("when", row.when), ("value", row.value), ("each", row.each)):
            if expression is not None:
                yield _Site(place, ("arguments", index, key), expression, ("role",))
    for index, variable in enumerate(arguments.environment):
        for key, expression in (("when", variable.when), ("value", variable.value)):
            if expression is not None:
                yield _Site(place, ("environment", index, key), expression, ("role",))
    for name, slot in arguments.slots.items():
        yield _Site(place, ("slots", name, "value"), slot.value, ("role",))
    for name, parts in arguments.blocks.items():
        for number, part in enumerate(parts):
            yield _Site(place, ("blocks", name, number, "when"), part.when, ("role",))


def _check_expression(tables: Tables, site: _Site) -> Iterator[str]:
    known = {*tables.by_name, *FACTS, *IMAGE_FACTS, *(one.name for one in tables.derived), *site.extra}
    for name in sorted(site.expression.names() - known):
        yield site.place.at(site.path, _unknown(name, known, "name") + f" (in: {site.expression.text})")
    for name, word in _enum_words(site.expression.tree):
        choice = tables.by_name.get(name)
        if choice is not None and choice.type == "enum":
            legal = [one.value for one in choice.values]
            if word not in legal:
                yield site.place.at(site.path, _unknown(word, legal, f"value of {name}"))


def _enum_words(tree: list[Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a variable and a text that an expression compares it with."""
    if tree[0] in ("var", "lit"):
        return
    parts = tree[1:]
    if tree[0] in ("==", "!=", "in", "not in"):
        for left, right in (parts, parts[::-1]):
            if left[0] == "var":
                words = right[1:] if right[0] == "list" else [right]
                yield from ((left[1], one[1]) for one in words if one[0] == "lit" and isinstance(one[1], str))
    for part in parts:
        yield from _enum_words(part)
