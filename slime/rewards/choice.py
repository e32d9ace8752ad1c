"""gpqa and multiple_choice: the letter that a response settles on, or the text of a choice.

A cue ("the answer is", "option", "final answer:") followed by a letter counts, the last one most. A cue followed by two
letters ("A or B") is a hedge. A cue followed by no choice at all is a wrong answer; a response without any cue and
without a letter that stands alone in its last sentence has no answer. A letter that is denied ("B is wrong") is none.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slime.rewards.extraction import boxed, final_part
from slime.rewards.gold import GoldError
from slime.rewards.verdict import Verdict

DEFAULT_LETTERS = "ABCDEFGHIJ"
TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|mathbf)\s*\{\s*([^{}]{0,40}?)\s*\}")
CUE = re.compile(
    r"\b(?:answers?|option|choice)\b[*_]{0,2}(?:\s{1,4}(?:is|are|would be|must be|should be))?\s{0,4}:?", re.IGNORECASE
)
# A letter that is a choice and not the word "a" or "I": marked, in capitals, or the last word of its line.
# Counted repetitions: with open ones, a run of spaces takes time with the square of its length.
MARKED = r"[\s(\[{*_`$\"']{0,12}"
AFTER_CUE = re.compile(rf"{MARKED}(?:(?:option|choice|answer)\s+)?{MARKED}(?P<letter>[A-Za-z])(?![A-Za-z0-9'’])")
NEXT_LETTER = re.compile(rf"[)\]}}*_`$\"'.\s]{{0,12}}(?:,|/|or|and|&)\s*{MARKED}(?P<letter>[A-Z])(?![A-Za-z0-9'’])")
BEFORE_CUE = re.compile(
    r"(?<![A-Za-z0-9])\(?(?P<letter>[A-Z])\)?\s{1,4}is\s{1,4}(?:the\s{1,4})?(?:correct|right|best)\b"
)
ALONE = re.compile(r"(?<![A-Za-z0-9'’\\])(?P<letter>[A-Z])(?![A-Za-z0-9'’])")
# Words that take a letter back.
DENIED_AFTER = re.compile(
    r"[)\]}*_`$\"'.]{0,6}(?:\s{0,4}\?|\s{1,4}(?:is|are|was|can|could|does|would|seems)\w{0,3}"
    r"\s{1,4}(?:be\s{1,4})?(?:not|incorrect|wrong|false|ruled|eliminated|excluded|impossible|out)\b|n't)",
    re.IGNORECASE,
)
DENIED_BEFORE = re.compile(r"\b(?:nor|or|and|not|neither)\s{1,4}\(?$", re.IGNORECASE)
DENIAL = re.compile(
    r"\b(?:not|never|neither|nor|cannot|except|wrong|incorrect|eliminat\w*|exclud\w*|ruled?|false|without)\b|n['’]t\b",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
ENDS = re.compile(r"[)\]}*_`$\"' \t]{0,12}(?:[.,;:!\n)]|$)")
NOT_WORDS = re.compile(r"[^a-z0-9]+")
MAX_TAIL = 20_000


@dataclass(frozen=True, slots=True)
class Choices:
    """What may be chosen.

    Attributes:
        letters: the letters in order.
        letter: the right one; None where the label is a text that no choice has.
        texts: text of each choice, normalised; empty if the data give none.
        targets: texts that are right, normalised.
    """

    letters: str
    letter: str | None
    texts: tuple[str, ...]
    targets: tuple[str, ...]


class ChoiceGrader:
    """``gpqa`` (letters A to J if the data name none) and ``multiple_choice`` (``metadata.choices`` is needed).

    Read from the metadata: `choices` (a list of texts, or a mapping from letter to text), `valid_letters`,
    `correct_letter`, `correct_answer`, `answer_text`.
    """

    def __init__(self, needs_choices: bool) -> None:
        self.needs_choices = needs_choices

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        """Refuse a label that names no choice.

        Raises:
            GoldError: with the reason.
        """
        read_choices(label, metadata, self.needs_choices)

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        """Verdict on one response.

        Raises:
            GoldError: if the label is unusable.
        """
        choices = read_choices(label, metadata, self.needs_choices)
        text = TEXT_COMMAND.sub(r"\1", final_part(response)[-MAX_TAIL:])
        if not text.strip():
            return Verdict.no_answer("the response is empty")
        letters, cued = chosen_letters(text, choices.letters)
        if len(letters) > 1:
            return Verdict.wrong(f"{len(letters)} choices named together: {', '.join(sorted(letters))}")
        if letters and choices.letter is not None:
            letter = letters.pop()
            return (
                Verdict.correct(f"choice {letter}") if letter == choices.letter else Verdict.wrong(f"choice {letter}")
            )
        return _by_text(text, choices, cued)


def read_choices(label: Any, metadata: Mapping[str, Any], needs_choices: bool = False) -> Choices:
    """Letters, texts and the right one, out of a row.

    Raises:
        GoldError: no right choice follows from the row, or `needs_choices` and the row has none.
    """
    given = metadata.get("choices")
    texts = list(given.values()) if isinstance(given, Mapping) else list(given or [])
    if needs_choices and len(texts) < 2:
        raise GoldError(f"metadata.choices is {given!r:.60}; multiple_choice wants a list of two texts or more.")
    names = list(given) if isinstance(given, Mapping) else []
    letters = "".join(map(str, metadata.get("valid_letters") or names)) or (
        string.ascii_uppercase[: len(texts)] if texts else DEFAULT_LETTERS
    )
    letters = letters.upper()
    if not letters.isalpha() or len(set(letters)) != len(letters) or (texts and len(texts) != len(letters)):
        raise GoldError(
            f"the choices have the letters {letters!r} and {len(texts)} texts; each needs a letter of its own."
        )
    spoken = tuple(normalised(str(text)) for text in texts)
    letter = _right_letter(label, metadata, letters, spoken)
    if letter is not None:
        spelled = [spoken[letters.index(letter)]] if spoken else []
    else:
        spelled = [normalised(label)] if isinstance(label, str) else []
    spelled += [normalised(str(metadata[name])) for name in ("correct_answer", "answer_text") if metadata.get(name)]
    targets = tuple(target for target in spelled if target)
    if letter is None and (spoken or not targets):
        raise GoldError(f"the gold answer {label!r:.60} is none of the letters {letters} and no choice's text.")
    return Choices(letters, letter, spoken, targets)


def _right_letter(label: Any, metadata: Mapping[str, Any], letters: str, spoken: tuple[str, ...]) -> str | None:
    named = metadata.get("correct_letter") or label
    if isinstance(named, int) and not isinstance(named, bool):
        return letters[named] if 0 <= named < len(letters) else None
    if not isinstance(named, str):
        return None
    short = named.strip().strip("().").upper()
    if len(short) == 1 and short in letters:
        return short
    target = normalised(named)
    if target and spoken.count(target) == 1:
        return letters[spoken.index(target)]
    if short.isascii() and short.isdigit() and int(short) < len(letters):
        return letters[int(short)]
    return None


def chosen_letters(text: str, letters: str) -> tuple[set[str], bool]:
    """The letters that `text` settles on (several are a hedge), and whether it has a cue at all."""
    boxes, _ = boxed(text)
    if boxes:
        found = {box.strip(" ().$").upper() for box in boxes}
        if all(len(box) == 1 and box in letters for box in found):
            return found, True
    settled: tuple[int, set[str]] = (-1, set())
    cued = False
    for cue in CUE.finditer(text):
        cued = True
        found = _after(text, cue.end(), letters)
        if found:
            settled = (cue.start(), found)
    for before in BEFORE_CUE.finditer(text):
        denied = DENIED_BEFORE.search(text[max(0, before.start() - 12) : before.start()])
        if before["letter"] in letters and before.start() > settled[0] and not denied:
            settled = (before.start(), {before["letter"]})
    if settled[1]:
        return settled[1], True
    last_sentence = next((one for one in reversed(SENTENCE.split(text)) if any(map(str.isalnum, one))), "")
    if DENIAL.search(last_sentence) or "?" in last_sentence:
        return set(), cued
    alone = {found["letter"] for found in ALONE.finditer(last_sentence) if _stands(last_sentence, found)}
    return alone & set(letters), cued


def _after(text: str, position: int, letters: str) -> set[str]:
    first = AFTER_CUE.match(text, position)
    if first is None or first["letter"].upper() not in letters:
        return set()
    letter = first["letter"]
    # "the answer is a matter of ..." and "option I would take": a lone letter, or one with a mark, is meant.
    bare = first[0].strip() == letter
    if bare and (letter.islower() or letter in "AI") and not _closes(text, first.end()):
        return set()
    if DENIED_AFTER.match(text, first.end()):
        return set()
    found = {letter.upper()}
    end = first.end()
    while (following := NEXT_LETTER.match(text, end)) and following["letter"] in letters:
        found.add(following["letter"])
        end = following.end()
    return found


def _stands(text: str, found: re.Match[str]) -> bool:
    """Whether a capital is a choice: "A" and "I" begin ordinary sentences, unless the line ends after them."""
    return found["letter"] not in "AI" or _closes(text, found.end())


def _closes(text: str, position: int) -> bool:
    """Whether a line or a clause ends here, or another letter is joined."""
    return ENDS.match(text, position) is not None or NEXT_LETTER.match(text, position) is not None


def _by_text(text: str, choices: Choices, cued: bool) -> Verdict:
    """Judge by the texts of the choices: the right one alone must stand after the last cue, or in the last line."""
    *_, last_cue = [0, *(cue.start() for cue in CUE.finditer(text))]
    scope = text[last_cue:] if cued else text.rstrip().rsplit("\n", maxsplit=1)[-1]
    spoken = f" {normalised(scope)} "
    right = {target for target in choices.targets if f" {target} " in spoken}
    others = {
        other
        for other in choices.texts
        if other and other not in choices.targets and f" {other} " in spoken and not any(other in one for one in right)
    }
    if right and not others:
        return Verdict.correct("the text of the right choice")
    if right or others:
        return Verdict.wrong(f"names {len(right) + len(others)} choices by their text" if right else "another choice")
    if cued:
        return Verdict.wrong("announces an answer and names no choice")
    return Verdict.no_answer(f"names none of the choices {choices.letters}")


def normalised(text: str) -> str:
    """Lower-case letters and digits, words separated by one space."""
    return NOT_WORDS.sub(" ", text.lower()).strip()
