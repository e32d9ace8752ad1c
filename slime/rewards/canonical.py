"""One spelling for each notation: what LaTeX writes in several ways is rewritten to one. Meaning is never dropped."""

from __future__ import annotations

import re

from slime.rewards.characters import plain
from slime.rewards.limits import MAX_CHARACTERS

INLINE_MATH = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$")
REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\left(?![a-zA-Z])|\\right(?![a-zA-Z])|\\displaystyle(?![a-zA-Z])|\\big[lr]?(?![a-zA-Z])", ""),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"(?<=\d)(?:\\,|\{,\}|\\!,\\!|\\!,|,\\!|\\ )(?=\d{3}(?!\d))", ","),
        (r"^~(?=\s*[-+\d.])", r"\\sim "),
        (r"(?<!\\)\\[,;:! ]|~|\\quad|\\qquad|[\s\u00a0]+", " "),
        (r"\^\s*\{?\s*\\circ\s*\}?|\\degree(?![a-zA-Z])", r" \\text{degree}"),
        (r"\\mathrm\s*\{\s*e\s*\}", "e"),
        (r"\\(?:mathrm|textbf|textit|textrm|mbox|mathbf|texttt|textsf)\s*\{", r"\\text{"),
        (r"≈|\\(?:approxeq|thickapprox|simeq)(?![a-zA-Z])", r"\\approx "),
        (r"\\(?:le|leqslant)(?![a-zA-Z])", r"\\leq"),
        (r"\\(?:ge|geqslant)(?![a-zA-Z])", r"\\geq"),
        (r"\\(?:varnothing|emptyset)(?![a-zA-Z])", r"\\{\\}"),
        (r"\{([^{}]*)\\over(?![a-zA-Z])([^{}]*)\}", r"\\frac{\1}{\2}"),
        (r"\\log_\s*(\d)", r"\\log_{\1}"),
        (r"\*\*", "^"),
        (r"(?<![\\*])\*(?!\*)", r"\\cdot "),
        (r"(?<![\\a-zA-Z])sqrt(?![a-zA-Z])", r"\\sqrt"),
        (r"(?<![\\a-zA-Z])(?:infinity|inf|oo)(?![a-zA-Z])|\+\s*\\infty", r"\\infty"),
        (r"(?<![\\a-zA-Z])pi(?![a-zA-Z])", r"\\pi "),
        (r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"\\sqrt\s*(\d)", r"\\sqrt{\1}"),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"\\frac\s*(\{[^{}]*\})\s*(\d)", r"\\frac\1{\2}"),
        (r"\^\s*\(([^()]*)\)", r"^{\1}"),
    )
)
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|[A-Za-z]|\S")
WRAPPED_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")


def canonical(answer: str) -> str:
    r"""Strip dollar signs, an outer ``\boxed``, a final full stop; rewrite spellings; collapse spaces."""
    text = answer.strip()
    if len(text) <= MAX_CHARACTERS:
        text = plain(text)
    if len(text) > MAX_CHARACTERS:
        return text  # over the limit, so nothing will be made of it; rewriting it would only take time
    while True:
        shorter = _unwrap(text)
        if shorter == text:
            break
        text = shorter
    text = INLINE_MATH.sub(r"\1", text)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return re.sub(r" +", " ", text).strip()


def _unwrap(text: str) -> str:
    text = text.strip()
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]"), ("$$", "$$"), ("$", "$"), ("**", "**"), (r"\boxed{", "}")):
        inside = text[len(opening) : len(text) - len(closing)]
        long_enough = len(text) > len(opening) + len(closing)
        if long_enough and text.startswith(opening) and text.endswith(closing) and _is_one_group(opening, inside):
            return inside.strip()
    if text.endswith(r"\\"):
        return text[:-2]
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1]
    return text


def _is_one_group(opening: str, inside: str) -> bool:
    """Whether the last closing mark belongs to the first opening one."""
    if opening == "**":
        return "*" not in inside
    if opening != r"\boxed{":
        return opening.strip("$") != "" or "$" not in inside.replace(r"\$", "")
    depth = 0
    for character in inside.replace(r"\{", "").replace(r"\}", ""):
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0


def key(text: str) -> str:
    """Spelling without the freedom of spaces: two canonical texts with the same key are the same answer."""
    return " ".join(TOKEN.findall(WRAPPED_TEXT.sub(lambda found: f" {found.group(1)} ", text)))
