"""`grade`: response and gold answer to a verdict. The graders differ in where they look for the answer."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from slime.rewards.canonical import canonical, key
from slime.rewards.equivalence import equivalent, identity
from slime.rewards.extraction import Extraction, extract_deepscaler, extract_math
from slime.rewards.gold import Gold, GoldError, choice_letter, read_gold, type_mismatch
from slime.rewards.verdict import Verdict

EXTRACTORS: dict[str, Callable[[str], Extraction]] = {"math": extract_math, "deepscaler": extract_deepscaler}
MAX_BOXES = 64


class UnknownGrader(ValueError):
    """No grader has this name."""


def check_label(rm_type: str, label: Any, metadata: dict[str, Any] | None = None) -> None:
    """Refuse a label that the grader `rm_type` cannot use; called for each row while the prompt file is read.

    Raises:
        UnknownGrader: if there is no such grader.
        GoldError: if the label is unusable. Both are ValueErrors.
    """
    _extractor(rm_type)
    read_gold(label, (metadata or {}).get("answer_type"))


def label_checker(rm_type: str) -> Callable[[Any, dict[str, Any]], None]:
    """`check_label` for `slime.data.prompts.load_prompts`; a row's ``metadata.rm_type`` goes before `rm_type`."""

    def check(label: Any, metadata: dict[str, Any]) -> None:
        check_label(str(metadata.get("rm_type", rm_type)), label, metadata)

    return check


def grade(
    rm_type: str,
    response: str,
    label: Any,
    answer_type: str | None = None,
    on_symbolic: Callable[[], None] | None = None,
) -> Verdict:
    """Grade one response. May take long on a hostile answer: call it through `slime.rewards.pool.GraderPool`.

    Args:
        rm_type: "math" or "deepscaler".
        response: the whole generated text.
        label: the gold answer as the data gives it.
        answer_type: declared type of the gold answer, see `slime.rewards.gold`.
        on_symbolic: called before the algebra system is used.

    Raises:
        UnknownGrader: if there is no such grader.
        GoldError: if the label is unusable; `check_label` finds that when the data is loaded.
    """
    extraction = _extractor(rm_type)(response)
    if extraction.answers and not any(canonical(answer) for answer in extraction.answers):
        return Verdict.wrong("the box is empty")
    gold = read_gold(label, answer_type)
    if not extraction.answers:
        return Verdict.no_answer(extraction.reason)
    answer, reason = _one_answer(extraction, gold)
    if answer is None:
        return Verdict.wrong(reason)
    if gold.type == "choice":
        same, reason = choice_letter(answer) == choice_letter(gold.text), f"choice {answer[:20]!r}"
    elif gold.type == "text":
        same, reason = key(canonical(answer)).casefold() == key(canonical(gold.text)).casefold(), "compared as words"
    elif mismatch := type_mismatch(answer, gold.type) if gold.type in ("set", "interval") else None:
        same, reason = False, f"the answer {mismatch}"
    else:
        same, reason = equivalent(answer, gold.text, on_symbolic)
    return Verdict.correct(reason) if same else Verdict.wrong(reason)


def _one_answer(extraction: Extraction, gold: Gold) -> tuple[str | None, str]:
    """The single answer of a response. Several different boxes are a hedge, unless the gold answer is a set."""
    distinct = list({identity(answer): answer for answer in extraction.answers}.values())
    if len(distinct) == 1:
        return distinct[0], ""
    if len(distinct) > MAX_BOXES:
        return None, f"{len(distinct)} boxed answers, the limit is {MAX_BOXES}"
    if gold.type == "set":
        return ", ".join(distinct), ""
    return None, f"{len(distinct)} different boxed answers; one is asked for"


def _extractor(rm_type: str) -> Callable[[str], Extraction]:
    if rm_type not in EXTRACTORS:
        near = difflib.get_close_matches(rm_type, EXTRACTORS, n=1)
        hint = f"the nearest is {near[0]!r}" if near else f"known: {', '.join(EXTRACTORS)}"
        raise UnknownGrader(f"--rm-type {rm_type!r} names no grader; {hint}.")
    return EXTRACTORS[rm_type]


__all__ = ["GoldError", "UnknownGrader", "check_label", "grade", "label_checker"]
