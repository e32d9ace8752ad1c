"""Instructions by id, each with its parameters; a row's ids and parameters are checked when the data is loaded."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate

from slime.rewards.gold import GoldError

Check = Callable[Concatenate[str, ...], bool]
COUNT = "a number, 0 or more"
PLACE = "a number, 1 or more"
TEXT = "a text"
TEXTS = "a list of texts"
LETTER = "one character"
RELATION = "'at least' or 'less than'"
RELATIONS = ("at least", "less than")


@dataclass(frozen=True, slots=True)
class Instruction:
    """A check of a response, and the kind of each of its parameters."""

    check: Check
    parameters: Mapping[str, str]


INSTRUCTIONS: dict[str, Instruction] = {}


def instruction(name: str, **parameters: str) -> Callable[[Check], Check]:
    """Register a function of the response and these keyword parameters under an instruction's id."""

    def register(check: Check) -> Check:
        INSTRUCTIONS[name] = Instruction(check, parameters)
        return check

    return register


def compare_count(count: int, wanted: int, relation: str) -> bool:
    """Whether `count` is "at least" or "less than" `wanted`."""
    return count >= wanted if relation == "at least" else count < wanted


def read_instructions(ids: Any, kwargs: Any, not_checked: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """A row's instructions with their parameters; nulls, which the published data set is full of, are left out.

    Args:
        ids, kwargs: two lists of the same length.
        not_checked: ids that are known and cannot be checked here, each with the reason.

    Raises:
        GoldError: an id is unknown or not checked, or a parameter is missing, unknown or of the wrong kind.
    """
    if not isinstance(ids, Sequence) or isinstance(ids, str) or not ids:
        raise GoldError(f"instruction_id_list is {ids!r:.60}; ifbench wants a list of instruction ids.")
    given = [{}] * len(ids) if kwargs is None else kwargs
    if not isinstance(given, Sequence) or len(given) != len(ids):
        raise GoldError(f"kwargs is {given!r:.60}; it must be a list of {len(ids)} objects, one for each instruction.")
    return [(str(name), _parameters(str(name), one or {}, not_checked)) for name, one in zip(ids, given, strict=True)]


def _parameters(name: str, given: Any, not_checked: Mapping[str, str]) -> dict[str, Any]:
    if name in not_checked:
        raise GoldError(f"the instruction {name!r} cannot be checked here: {not_checked[name]}.")
    if name not in INSTRUCTIONS:
        near = difflib.get_close_matches(name, INSTRUCTIONS, n=1)
        hint = f"the nearest is {near[0]!r}" if near else f"there are {len(INSTRUCTIONS)}, e.g. 'keywords:existence'"
        raise GoldError(f"the instruction {name!r} is unknown; {hint}.")
    if not isinstance(given, Mapping):
        raise GoldError(f"the parameters of {name!r} are {given!r:.60}, not an object.")
    values = {key: value for key, value in given.items() if value is not None}
    kinds = INSTRUCTIONS[name].parameters
    for key in values:
        if key not in kinds:
            raise GoldError(f"{name!r} has no parameter {key!r}; it has {', '.join(kinds) or 'none'}.")
    for key, kind in kinds.items():
        if key not in values:
            raise GoldError(f"{name!r} needs the parameter {key!r}: {kind}.")
        values[key] = _value(name, key, kind, values[key])
    return values


def _value(name: str, key: str, kind: str, value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = {
        COUNT: whole and value >= 0,
        PLACE: whole and value >= 1,
        TEXT: isinstance(value, str) and bool(value.strip()),
        TEXTS: isinstance(value, list) and bool(value) and all(isinstance(one, str) and one.strip() for one in value),
        LETTER: isinstance(value, str) and len(value.strip()) == 1,
        RELATION: value in RELATIONS,
    }[kind]
    if not fits:
        raise GoldError(f"{name!r}: {key} is {value!r:.60}; it must be {kind}.")
    return value
