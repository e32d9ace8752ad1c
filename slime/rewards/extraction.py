"""Finding the answer in a response. Says nothing about whether it is right."""

from __future__ import annotations

import re
from dataclasses import dataclass

BOX = re.compile(r"\\boxed\s*\{")
# A response that is nothing but a number is its own answer; longer text is prose.
BARE_ANSWER = re.compile(r"[-+]?\$?[-+]?[\d.,/]+\$?")
MAX_BARE = 64


@dataclass(frozen=True, slots=True)
class Extraction:
    """Candidate answers in the order they appear; none, and the reason why there is none."""

    answers: tuple[str, ...]
    reason: str


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
    position = start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1  # \{ and \} are printed braces and do not nest
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None


def extract_math(response: str) -> Extraction:
    """Boxed answers after the last ``</think>``; where that part has none, those of the whole response.

    A response (or final part) that is nothing but a number counts as an answer too, so that a model which answers
    directly needs no box.
    """
    final = response.rsplit("</think>", maxsplit=1)[-1]
    for part in (final, response):
        answers, is_open = boxed(part)
        if answers:
            return Extraction(tuple(answers), "boxed")
        if is_open:
            return Extraction((), "the box is not closed; the response was probably cut off")
        bare = part.strip()
        if bare and len(bare) <= MAX_BARE and BARE_ANSWER.fullmatch(bare):
            return Extraction((bare,), "the response is a bare number")
    return Extraction((), r"no \boxed{...} in the response")


def extract_deepscaler(response: str) -> Extraction:
    """Boxed answers of the final part: after the last ``</think>``, else after the first ``###Response``.

    Source: DeepScaleR's reward. A response with neither mark has no final part, so a model that does not think never
    scores; it wants the grader ``math``.
    """
    if "</think>" in response:
        final = response.rsplit("</think>", maxsplit=1)[1]
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
