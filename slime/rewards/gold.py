"""Gold answers: a text with a declared type, checked when the data is loaded rather than in the middle of a run."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from slime.rewards.canonical import canonical
from slime.rewards.characters import unprintable
from slime.rewards.limits import MAX_CHARACTERS, over_limit
from slime.rewards.structure import Answer, read_answer

AnswerType = Literal[
    "any", "int", "rational", "decimal", "expr", "set", "interval", "tuple", "matrix", "choice", "text"
]
CHOICE = re.compile(r"\(?([A-Za-z])\)?\.?")
INTERVAL_BRACKETS = ("()", "(]", "[)", "[]")


class GoldError(ValueError):
    """A gold answer that no response could be compared with; refused when the data is loaded."""


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold answer as text, and its declared type ("any" where the data declares none)."""

    text: str
    type: AnswerType


def read_gold(label: Any, answer_type: str | None = None) -> Gold:
    """Check a label of the data.

    Args:
        label: text, an integer or a finite float.
        answer_type: what the data declares, e.g. in the row's ``metadata.answer_type``; None = "any".

    Raises:
        GoldError: for a label of another kind, an empty one, or one that is not of the declared type.
    """
    kind = "any" if answer_type is None else answer_type
    if kind not in get_args(AnswerType):
        near = difflib.get_close_matches(str(kind), get_args(AnswerType), n=1)
        hint = f"the nearest is {near[0]!r}" if near else f"known: {', '.join(get_args(AnswerType))}"
        raise GoldError(f"answer type {kind!r} is unknown; {hint}.")
    if isinstance(label, bool) or not isinstance(label, (str, int, float)):
        raise GoldError(
            f"the gold answer is {_shown(label)}; it must be text or a number. Join lists as text, e.g. '1, 2'."
        )
    if isinstance(label, float) and not math.isfinite(label):
        raise GoldError(f"the gold answer is {label}; it must be finite.")
    text = str(label).strip()
    if not canonical(text[:MAX_CHARACTERS]):
        raise GoldError("the gold answer is empty.")
    if len(text) > MAX_CHARACTERS:
        raise GoldError(f"the gold answer has {len(text)} characters, the limit is {MAX_CHARACTERS}.")
    if character := unprintable(text):
        raise GoldError(f"the gold answer holds {character}, which nobody can see.")
    gold = Gold(text, kind)  # type: ignore[arg-type]
    if reason := type_mismatch(text, gold.type):
        raise GoldError(f"the gold answer {text[:60]!r} is declared {kind!r} but {reason}.")
    return gold


def type_mismatch(text: str, kind: AnswerType) -> str | None:
    """Why an answer is not of a type, or None if it is."""
    if kind in ("any", "text", "expr"):
        return None
    if kind == "choice":
        return None if choice_letter(text) else "is no single letter"
    if reason := over_limit(canonical(text)):
        return f"is over a limit: {reason}"
    answer = read_answer(canonical(text), as_list=kind in ("set", "interval"))
    if kind == "int":
        return None if answer.number is not None and answer.number.denominator == 1 else "is no integer"
    if kind == "rational":
        return None if answer.number is not None else "is no fraction of integers"
    if kind == "decimal":
        return None if answer.number is not None and _ends(answer.number.denominator) else "is no finite decimal"
    if kind == "set":
        return None if answer.shape in ("set", "list") else "is no list or set of values"
    if kind == "tuple":
        return None if answer.shape == "tuple" else "is no tuple in brackets"
    if kind == "matrix":
        return None if answer.shape == "matrix" else "is no matrix"
    return None if _is_interval(answer) else "is no interval or union of intervals"


def gsm8k_gold(label: Any, answer_type: str | None = None) -> Gold:
    """A GSM8K label: a number, or a whole solution that ends with ``#### NUMBER``.

    Raises:
        GoldError: as `read_gold`, and for a label that is no number.
    """
    if isinstance(label, str) and "####" in label:
        label = label.rsplit("####", maxsplit=1)[1]
    gold = read_gold(label, answer_type)
    if read_answer(canonical(gold.text)).number is None:
        raise GoldError(f"the gold answer {gold.text[:60]!r} is no number; gsm8k compares numbers, math compares more.")
    return gold


def _ends(denominator: int) -> bool:
    """Whether a fraction in lowest terms has finitely many decimals: 2 and 5 alone divide its denominator."""
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator == 1


def choice_letter(text: str) -> str | None:
    r"""The letter of ``B``, ``(B)``, ``b.`` or ``\text{B}`` in upper case, or None."""
    found = CHOICE.fullmatch(re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", canonical(text)).strip())
    return found[1].upper() if found else None


def _is_interval(answer: Answer) -> bool:
    if answer.shape == "union":
        return all(_is_interval(part) for part in answer.parts)
    return answer.shape == "tuple" and answer.brackets in INTERVAL_BRACKETS and len(answer.parts) == 2


def _shown(label: Any) -> str:
    return f"{type(label).__name__} {str(label)[:40]!r}" if label is not None else "missing (null)"
