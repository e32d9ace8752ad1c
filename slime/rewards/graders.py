"""`grade`: response and gold answer to a verdict, by the grader that `--rm-type` or the row names."""

from __future__ import annotations

import difflib
import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slime.rewards.answers import AnswerGrader
from slime.rewards.choice import ChoiceGrader
from slime.rewards.extraction import extract_boxed, extract_dapo, extract_deepscaler, extract_gsm8k, extract_math
from slime.rewards.gold import GoldError, gsm8k_gold
from slime.rewards.overlap import OverlapGrader
from slime.rewards.verdict import Verdict

BOXED = "boxed_"
REMOTE = "remote_rm"
MAX_RESPONSE = 8_000_000
METADATA_KEYS = (
    "answer_type", "choices", "valid_letters", "correct_letter", "correct_answer", "answer_text",
    "instruction_id_list", "kwargs",
)  # fmt: skip
"""What graders read of a row's metadata; nothing else crosses to a worker."""


class UnknownGrader(ValueError):
    """No grader has this name."""


class Grader(Protocol):
    """What every grader does."""

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        """Refuse a label, with GoldError."""
        ...

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        """Verdict on one response."""
        ...


class _Boxed:
    """The prefix ``boxed_``: another grader reads the last boxed answer alone, or nothing where there is no box."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        self._grader.check(label, metadata)

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        answers = extract_boxed(response).answers
        return self._grader.grade(answers[-1] if answers else "", label, metadata, on_symbolic)


class _Random:
    """``random``: a fair coin, for checks of a whole run; the same response to the same label falls the same way."""

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        pass

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        digest = hashlib.sha256(f"{label}\n{response}".encode(errors="surrogatepass")).digest()
        return Verdict.correct("a coin") if digest[0] & 1 else Verdict.wrong("a coin")


def _ifbench() -> Grader:
    from slime.rewards.instructions import InstructionGrader  # a hundred functions that most runs never need

    return InstructionGrader()


GRADERS: dict[str, Callable[[], Grader]] = {
    "math": lambda: AnswerGrader(extract_math),
    "deepscaler": lambda: AnswerGrader(extract_deepscaler),
    "dapo": lambda: AnswerGrader(extract_dapo, wrong_score=-1.0),
    "gsm8k": lambda: AnswerGrader(extract_gsm8k, gold=gsm8k_gold),
    "f1": OverlapGrader,
    "gpqa": lambda: ChoiceGrader(needs_choices=False),
    "multiple_choice": lambda: ChoiceGrader(needs_choices=True),
    "ifbench": _ifbench,
    "random": _Random,
}
"""Graders that run here, by the name that `--rm-type` gives."""


@functools.cache
def find_grader(rm_type: str) -> Grader:
    """The grader of this name, with or without the prefix ``boxed_``.

    Raises:
        UnknownGrader: with the nearest name.
    """
    name = rm_type.strip()
    base = name.removeprefix(BOXED)
    if base not in GRADERS:
        known = [*GRADERS, REMOTE]
        near = difflib.get_close_matches(base, known, n=1)
        hint = f"the nearest is {near[0]!r}" if near else f"known: {', '.join(known)}"
        raise UnknownGrader(f"{name!r} names no grader; {hint}.")
    grader = GRADERS[base]()
    if base == name:
        return grader
    return grader.boxed() if isinstance(grader, AnswerGrader) else _Boxed(grader)


def check_label(rm_type: str, label: Any, metadata: Mapping[str, Any] | None = None) -> None:
    """Refuse a label that the grader `rm_type` cannot use; called for each row while the prompt file is read.

    Raises:
        UnknownGrader: if there is no such grader.
        GoldError: if the label is unusable. Both are ValueErrors.
    """
    if rm_type.strip() != REMOTE:  # what a remote grader makes of a label is its own affair
        find_grader(rm_type).check(label, metadata or {})


def label_checker(rm_type: str) -> Callable[[Any, dict[str, Any]], None]:
    """`check_label` for `slime.data.prompts.load_prompts`; a row's ``metadata.rm_type`` goes before `rm_type`."""

    def check(label: Any, metadata: dict[str, Any]) -> None:
        check_label(str(metadata.get("rm_type", rm_type)), label, metadata)

    return check


def grade(
    rm_type: str,
    response: str,
    label: Any,
    metadata: Mapping[str, Any] | None = None,
    on_symbolic: Callable[[], None] | None = None,
) -> Verdict:
    """Grade one response. May take long on a hostile answer: call it through `slime.rewards.pool.GraderPool`.

    Args:
        rm_type: name of a grader in `GRADERS`, also with the prefix ``boxed_``.
        response: the whole generated text.
        label: the gold answer as the data gives it.
        metadata: the row's; `METADATA_KEYS` are read.
        on_symbolic: called before the algebra system is used.

    Raises:
        UnknownGrader: if there is no such grader.
        GoldError: if the label is unusable; `check_label` finds that when the data is loaded.
    """
    grader = find_grader(rm_type)
    if len(response) > MAX_RESPONSE:
        return Verdict.wrong(f"the response has {len(response)} characters, the limit is {MAX_RESPONSE}")
    return grader.grade(response, label, metadata or {}, on_symbolic)


__all__ = ["GoldError", "UnknownGrader", "check_label", "find_grader", "grade", "label_checker"]
