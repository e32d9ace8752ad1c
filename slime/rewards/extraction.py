"""Finding the answer in a response. Says nothing about whether it is right."""

from __future__ import annotations

import collections
import re
from dataclasses import dataclass

BOX = re.compile(r"\\boxed\s*\{")
BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # \{ and \} are printed braces and do not nest
# A response that is nothing but a number is its own answer; longer text is prose.
BARE_ANSWER = re.compile(r"[-+−]?\$?[-+−]?[0-9.,/]+\$?")
MAX_BARE = 64
MAX_TAIL = 50_000
ANSWER_LINE = re.compile(r"\banswers?\**\s*:", re.IGNORECASE)
MARKUP = "*_` \t"
END_MARK = re.compile(r"(?:<\|[a-z_]{1,20}\|>|</s>|<end_of_turn>)\s*$")
NUMBER = re.compile(r"-?\$?(?<![A-Za-z])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|-?\.[0-9]+")
# What stands between two numbers of which the writer has not chosen one.
JOINED = re.compile(r"[0-9][.%]?\s*(?:or|and|and/or|,|/|to|-|–|through)\s*\$?$", re.IGNORECASE)
STATED = re.compile(
    r"(?P<value>[-+−]?\s*\\?\$?\s*[-+−]?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)(?:\s*/\s*[0-9]+)?)\.?(?P<rest>[^0-9]*)"
)


@dataclass(frozen=True, slots=True)
class Extraction:
    """Candidate answers in the order they appear; none, and the reason why there is none."""

    answers: tuple[str, ...]
    reason: str


def final_part(response: str) -> str:
    """What follows the last ``</think>``; the whole response if there is none."""
    return response.rsplit("</think>", maxsplit=1)[-1]


def boxed(text: str) -> tuple[list[str], bool]:
    r"""Contents of each ``\boxed{...}`` that is not inside another one, and whether one is left open at the end."""
    contents: list[str] = []
    position = 0
    while found := BOX.search(text, position):
        end = _closing(text, found.end())
        if end is None:
            return contents, True
        contents.append(text[found.end() : end].strip())
        position = end
    return contents, False


def _closing(text: str, start: int) -> int | None:
    depth = 1
    for found in BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    return None


def extract_boxed(response: str) -> Extraction:
    """Boxed answers of the final part; where that has none, those of the whole response."""
    for part in (final_part(response), response):
        answers, is_open = boxed(part)
        if answers:
            return Extraction(tuple(answers), "boxed")
        if is_open:
            return Extraction((), "the box is not closed; the response was probably cut off")
    return Extraction((), r"no \boxed{...} in the response")


def extract_math(response: str) -> Extraction:
    """Boxed answers, as `extract_boxed` finds them.

    A response (or final part) that is nothing but a number counts as an answer too, so that a model which answers
    directly needs no box.
    """
    final = final_part(response)
    answers, _ = boxed(final)
    if not answers and (bare := _bare(final)):
        return Extraction((bare,), "the response is a bare number")
    return extract_boxed(response)


def extract_deepscaler(response: str) -> Extraction:
    """Boxed answers of the final part: after the last ``</think>``, else after the first ``###Response``.

    Source: DeepScaleR's reward. A response with neither mark has no final part, so a model that does not think never
    scores; it wants the grader ``math``.
    """
    if "</think>" in response:
        final = final_part(response)
    elif "###Response" in response:
        final = response.split("###Response")[1]
    else:
        return Extraction((), "neither </think> nor ###Response; for a model that does not think use --rm-type math")
    answers, is_open = boxed(final)
    if answers:
        return Extraction(tuple(answers), "boxed")
    if is_open:
        return Extraction((), "the box is not closed; the response was probably cut off")
    return Extraction((), r"no \boxed{...} after the thinking part")


def extract_dapo(response: str) -> Extraction:
    """What follows the last ``Answer:``, to the end of its line (or the next line with text); else the boxed answers.

    Source: the prompt of DAPO (arXiv 2503.14476) asks for a last line ``Answer: ...``. A later answer replaces an
    earlier one, so naming several gains nothing. How much text follows does not matter.
    """
    final = final_part(response)
    last = _last(ANSWER_LINE, final)
    if last is not None and (line := _first_line(final[last.end() :])):
        answers, is_open = boxed(line)
        if is_open:
            return Extraction((), "the box is not closed; the response was probably cut off")
        return Extraction(tuple(answers) or (line,), "the last answer line")
    if bare := _bare(final):
        return Extraction((bare,), "the response is a bare number")
    found = extract_boxed(response)
    return found if found.answers else Extraction((), "no line 'Answer: ...' and no box in the response")


def extract_gsm8k(response: str) -> Extraction:
    """What follows the last ``####``; else the boxed answers; else the last number of the final part.

    Source: the data set's own solutions end with ``#### NUMBER``; its usual second, lenient rule takes the last number.
    Two numbers joined by "or", "and" or "to" are no choice, and both are returned.
    """
    final = final_part(response)
    if "####" in final:
        line = _first_line(final.rsplit("####", maxsplit=1)[1])
        return Extraction((_stated(line),), "after ####") if line else Extraction((), "nothing follows ####")
    found = extract_boxed(response)
    if found.answers:
        return found
    final = final[-MAX_TAIL:]
    last = _last(NUMBER, final)
    if last is None:
        return Extraction((), "neither ####, nor a box, nor a number in the response")
    before = final[max(0, last.start() - 16) : last.start()]
    if JOINED.search(before):
        return Extraction((final[max(0, last.start() - 16) : last.end()].strip(),), "two numbers at the end")
    return Extraction((last[0],), "the last number")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = collections.deque(pattern.finditer(text), maxlen=1)
    return found[0] if found else None


def _stated(line: str) -> str:
    """``18 apples`` states 18; ``18 or 20`` stays as it is, and so does anything with a second number in it."""
    found = STATED.fullmatch(line.rsplit("=", maxsplit=1)[-1].strip(MARKUP))
    return found["value"].strip() if found and not found["rest"].strip().startswith("%") else line


def _bare(text: str) -> str | None:
    bare = text.strip()
    return bare if bare and len(bare) <= MAX_BARE and BARE_ANSWER.fullmatch(bare) else None


def _first_line(text: str) -> str:
    """The first line that holds more than marks of emphasis, without them and without a chat template's end mark."""
    for line in text.lstrip().split("\n", maxsplit=4)[:4]:
        if kept := END_MARK.sub("", line).strip(MARKUP):
            return kept
    return ""
