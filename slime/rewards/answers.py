"""Graders of one final answer: where they look differs, how they compare does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slime.rewards.canonical import canonical, key
from slime.rewards.characters import unprintable
from slime.rewards.equivalence import equivalent, identity
from slime.rewards.extraction import Extraction, extract_boxed
from slime.rewards.gold import Gold, choice_letter, read_gold, type_mismatch
from slime.rewards.limits import MAX_CHARACTERS
from slime.rewards.structure import read_answer
from slime.rewards.verdict import Verdict

MAX_BOXES = 64
PLACEHOLDERS = ("", r"\ldots", r"\dots", "answer", "your answer", "final answer", r"\text{answer", r"\text{your answer")
STRICT_TYPES = ("set", "interval", "tuple", "matrix")


@dataclass(frozen=True, slots=True)
class AnswerGrader:
    """Takes the answer out of a response with `extract` and compares it with the gold answer.

    Attributes:
        extract: finds the answer.
        gold: reads and checks the label; raises GoldError.
        wrong_score: score of a wrong or missing answer.
    """

    extract: Callable[[str], Extraction]
    gold: Callable[[Any, str | None], Gold] = read_gold
    wrong_score: float = 0.0

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        """Refuse a label that no response could be compared with.

        Raises:
            GoldError: with the reason.
        """
        self.gold(label, metadata.get("answer_type"))

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        """Verdict on one response.

        Raises:
            GoldError: if the label is unusable and the response has an answer that is not empty.
        """
        verdict = self._grade(response, label, metadata, on_symbolic)
        return verdict if verdict.kind == "correct" else dataclasses.replace(verdict, score=self.wrong_score)

    def boxed(self) -> AnswerGrader:
        """The same grader reading boxes, as the prefix ``boxed_`` asks."""
        return dataclasses.replace(self, extract=extract_boxed)

    def _grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        extraction = self.extract(response)
        if (
            extraction.answers
            and len(set(extraction.answers)) <= MAX_BOXES
            and not any(map(canonical, extraction.answers))
        ):
            return Verdict.wrong("the answer is empty")
        gold = self.gold(label, metadata.get("answer_type"))
        if not extraction.answers:
            return Verdict.no_answer(extraction.reason)
        answer, reason = _one_answer(extraction, gold)
        if answer is None:
            return Verdict.wrong(reason)
        same, reason = compare(answer, gold, on_symbolic)
        return Verdict.correct(reason) if same else Verdict.wrong(reason)


def compare(answer: str, gold: Gold, on_symbolic: Callable[[], None] | None = None) -> tuple[bool, str]:
    """Whether `answer` is the gold answer, by the rules of the gold answer's type, and why."""
    if character := unprintable(answer[:MAX_CHARACTERS]):
        return False, f"the answer holds {character}, which nobody can see"
    if gold.type == "choice":
        return choice_letter(answer) == choice_letter(gold.text), f"choice {answer[:20]!r}"
    if gold.type == "text":
        return key(canonical(answer)).casefold() == key(canonical(gold.text)).casefold(), "compared as words"
    if gold.type in STRICT_TYPES and (mismatch := type_mismatch(answer, gold.type)):
        return False, f"the answer {mismatch}"
    if gold.type == "set":
        return equivalent(_as_set(answer), _as_set(gold.text), on_symbolic)
    return equivalent(answer, gold.text, on_symbolic)


def _as_set(text: str) -> str:
    r"""``1,234`` declared as a set is a set of two numbers, not one number."""
    text = canonical(text)
    return text if read_answer(text, as_list=True).shape in ("set", "union") else rf"\{{{text}\}}"


def _one_answer(extraction: Extraction, gold: Gold) -> tuple[str | None, str]:
    """The single answer of a response. Several different boxes are a hedge, unless the gold answer is a set."""
    # A prompt that is repeated says "put your answer in \\boxed{}"; that box is no answer.
    filled = [answer for answer in extraction.answers if answer.strip("{} .").lower() not in PLACEHOLDERS]
    spellings = list(dict.fromkeys(filled or extraction.answers))
    if len(spellings) > MAX_BOXES:
        return None, f"{len(spellings)} different boxed answers, the limit is {MAX_BOXES}"
    distinct = list({identity(answer): answer for answer in spellings}.values())
    if len(distinct) == 1:
        return distinct[0], ""
    if gold.type == "set":
        return ", ".join(distinct), ""
    return None, f"{len(distinct)} different boxed answers; one is asked for"
