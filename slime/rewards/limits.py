"""Limits on an answer's text, checked before anything parses it.

A parser or an algebra system that is handed ``9**9**9**9`` does not return. None of these checks computes anything:
they read the text once.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 2000
MAX_EXPRESSION = 500  # characters for the LaTeX parser, which takes a millisecond for each
MAX_DIGITS = 400
MAX_DEPTH = 32
MAX_NUMBER_EXPONENT = 4096  # 2^{4096}: a few thousand digits
MAX_EXPRESSION_EXPONENT = 100  # (x+y)^{100} still expands in milliseconds
MAX_FACTORIAL = 500
ENORMOUS = 10**12  # above every limit; counting on would only make the number in the message longer

NUMBER = re.compile(r"\d+")
POWER = re.compile(r"\^|\*\*")
OPENING, CLOSING = "([{", ")]}"
FACTORIAL = re.compile(r"(\d*)(\D?)!(?!=)")
BINOMIAL = re.compile(r"\\[dt]?binom\{?(\d+)")


def over_limit(text: str) -> str | None:
    """The first limit that `text` exceeds, with its numbers, or None.

    Limits: length, digits in one number, bracket depth, exponents (a literal number; no power or factorial inside one),
    factorials and binomials of literal numbers.
    """
    if len(text) > MAX_CHARACTERS:
        return f"{len(text)} characters, the limit is {MAX_CHARACTERS}"
    digits = max((len(found) for found in NUMBER.findall(text)), default=0)
    if digits > MAX_DIGITS:
        return f"a number of {digits} digits, the limit is {MAX_DIGITS}"
    depth = _depth(text)
    if depth > MAX_DEPTH:
        return f"brackets nested {depth} deep, the limit is {MAX_DEPTH}"
    return _power_over_limit(text) or _factorial_over_limit(text)


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif character in CLOSING:
            depth = max(depth - 1, 0)
    return deepest


def _power_over_limit(text: str) -> str | None:
    for power in POWER.finditer(text):
        base = text[: power.start()].rstrip()[-1:]
        exponent, rest = _operand(text[power.end() :].lstrip())
        if POWER.match(rest.lstrip()):
            return "a power of a power"
        for inner in POWER.finditer(exponent):
            # x^{2} inside e^{-x^{2}} grows slowly; 9^{9} inside 9^{9^{9}} does not.
            if not exponent[: inner.start()].rstrip()[-1:].isalpha():
                return "a power of a power"
        if "!" in exponent:
            return "a factorial in an exponent"
        size = 1
        for number in NUMBER.findall(exponent):
            size *= max(int(number), 1)
            if size > ENORMOUS:
                break
        limit = MAX_NUMBER_EXPONENT if base.isdigit() else MAX_EXPRESSION_EXPONENT
        if size > limit:
            return f"an exponent of size {size}, the limit is {limit}"
    return None


def _operand(text: str) -> tuple[str, str]:
    """The exponent at the start of `text` (a bracketed group, or a run up to the next operator), and what follows."""
    if text[:1] in OPENING and text:
        depth = 0
        for position, character in enumerate(text):
            depth += (character in OPENING) - (character in CLOSING)
            if depth == 0:
                return text[1:position], text[position + 1 :]
        return text[1:], ""
    found = re.match(r"[-+]?\s*(?:\\?[A-Za-z]+|[\d.]+)?", text)
    end = found.end() if found else 0
    return text[:end], text[end:]


def _factorial_over_limit(text: str) -> str | None:
    for found in FACTORIAL.finditer(text):
        number, before = found.group(1), found.group(2)
        if before and not before.isalpha():
            return f"a factorial of {'a factorial' if before == '!' else 'an expression'}"
        if number and not before and int(number) > MAX_FACTORIAL:
            return f"the factorial of {number}, the limit is {MAX_FACTORIAL}"
        if not number and not before:
            return "a factorial of a factorial"
    for found in BINOMIAL.finditer(text):
        if int(found.group(1)) > MAX_FACTORIAL:
            return f"a binomial of {found.group(1)}, the limit is {MAX_FACTORIAL}"
    return None
