"""The grader's answer: a kind, a score and a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["correct", "wrong", "no-answer", "grader-error"]


class RewardKeyError(ValueError):
    """--reward-key names a number that the grader does not give."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader says about one response.

    Attributes:
        kind: "grader-error" says that the grader failed (time limit, crash), which is not the same as a wrong answer.
        score: 1.0 for correct, 0.0 otherwise; dapo: -1.0 for wrong and no-answer; f1: between 0 and 1. A caller that
            drops grader errors looks at `kind`, not at `score`.
        reason: one line for a human.
        extra: further numbers by name, as a remote grader returned them.
        milliseconds: what the grading took; verdicts that differ in it alone are equal.
    """

    kind: Kind
    score: float
    reason: str
    extra: dict[str, float] = field(default_factory=dict)
    milliseconds: float = field(default=0.0, compare=False)

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

    def value(self, reward_key: str | None = None) -> float:
        """The number that `--reward-key` names: "score" (also without a key), "acc" (1.0 iff correct), or an extra.

        A grader that failed said nothing: 0.0 whatever the key.

        Raises:
            RewardKeyError: no number has this name; the message lists those there are.
        """
        if self.kind == "grader-error":
            return 0.0
        values = {"score": self.score, "acc": float(self.kind == "correct"), **self.extra}
        if (key := reward_key or "score") not in values:
            raise RewardKeyError(f"--reward-key {key} names no number of this grader; it gives {', '.join(values)}")
        return values[key]
