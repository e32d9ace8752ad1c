"""The grader's answer: a kind, a score and a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["correct", "wrong", "no-answer", "grader-error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader says about one response.

    Attributes:
        kind: "grader-error" says that the grader failed (time limit, crash), which is not the same as a wrong answer.
        score: 1.0 for correct, 0.0 otherwise. A caller that drops grader errors looks at `kind`, not at `score`.
        reason: one line for a human.
    """

    kind: Kind
    score: float
    reason: str

    @staticmethod
    def correct(reason: str) -> Verdict:
        """The answer equals the gold answer."""
        return Verdict("correct", 1.0, reason)

    @staticmethod
    def wrong(reason: str) -> Verdict:
        """There is an answer and it is not the gold answer."""
        return Verdict("wrong", 0.0, reason)

    @staticmethod
    def no_answer(reason: str) -> Verdict:
        """The response holds nothing that could be compared."""
        return Verdict("no-answer", 0.0, reason)

    @staticmethod
    def grader_error(reason: str) -> Verdict:
        """The grader itself failed: a limit, a crash or an error in a library."""
        return Verdict("grader-error", 0.0, reason)
