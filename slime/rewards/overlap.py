"""f1: how many words a free-text answer shares with the gold answer.

Source: the evaluation of SQuAD (arXiv 1606.05250): lower case, no punctuation, no articles, then F1 over the multisets
of words. From HotpotQA (arXiv 1809.09600): where one side says yes, no or noanswer, only the same word scores.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from slime.rewards.extraction import final_part
from slime.rewards.gold import GoldError
from slime.rewards.verdict import Verdict

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)
CLOSED = ("yes", "no", "noanswer")
MAX_RESPONSE = 1_000_000


def words(text: str) -> list[str]:
    """Words of a text in lower case, without punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def f1(one: list[str], other: list[str]) -> float:
    """Harmonic mean of precision and recall over the multisets of words, 0 to 1; symmetric."""
    if one != other and any(" ".join(side) in CLOSED for side in (one, other)):
        return 0.0
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other)) if shared else 0.0


class OverlapGrader:
    """The grader ``f1``; its label is a text, or a list of texts of which the nearest counts."""

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        """Refuse a label without words.

        Raises:
            GoldError: with the reason.
        """
        _gold_words(label)

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        """Score = the best F1; the verdict is "correct" at 1.0 alone.

        Raises:
            GoldError: if the label is unusable.
        """
        references = _gold_words(label)
        answer = words(final_part(response)[:MAX_RESPONSE])
        if not answer:
            return Verdict.no_answer("the response has no words")
        score = max(f1(answer, reference) for reference in references)
        kind = "correct" if score == 1.0 else "wrong"
        return Verdict(kind, score, f"F1 {score:.3f} over {len(answer)} words")  # type: ignore[arg-type]


def _gold_words(label: Any) -> list[list[str]]:
    texts = label if isinstance(label, list) and label else [label]
    for text in texts:
        if not isinstance(text, str) or not words(text):
            raise GoldError(f"the gold answer is {text!r:.60}; f1 wants a text with words, or a list of such texts.")
    return [words(text) for text in texts]
