r"""Canonical LaTeX made explicit for math-verify's parser, which reads some juxtapositions as something else.

It takes ``(6)(5)`` and ``2(3)`` for mixed numbers and adds, ``x(3)`` for a function of 3, and ``{2}{3}`` for 5. Here
products get their sign, bare groups become brackets, and degrees their factor.
"""

from __future__ import annotations

import re

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]*)?|\.[0-9]+|[A-Za-z]+|\s+|.", re.DOTALL)
ARGUMENTS = {r"\frac": 2, r"\binom": 2, r"\sqrt": 1, "^": 1, "_": 1}
DEGREES = re.compile(r"((?:[0-9]+(?:\.[0-9]+)?)|\{[^{}]*\}|\([^()]*\))\s*\\text\s*\{degree\}")
FUNCTIONS = "fgh"
CALLED = re.compile(r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc|sinh|cosh|tanh|log|ln|lg|exp)")
CONSTANTS = (r"\pi", r"\theta", r"\alpha", r"\beta")
VALUE, NUMBER, UNKNOWN, OTHER = "value", "number", "unknown", "other"


def explicit(text: str) -> str | None:
    """`text` with explicit products; None if its braces do not match."""
    return _Rewriter().rewrite(DEGREES.sub(r"(\1\\cdot\\frac{\\pi}{180})", text))


class _Rewriter:
    """One pass over the tokens.

    `_owed` counts the braced groups that the last command still takes; `_last` says what the written text ends with.
    """

    def __init__(self) -> None:
        self._out: list[str] = []
        self._groups: list[tuple[str, int, str]] = []  # closing mark, groups still owed after it, what it ends
        self._owed = 0
        self._owner = ""
        self._last = OTHER

    def rewrite(self, text: str) -> str | None:
        tokens = TOKEN.findall(text)
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if token.isspace():
                self._out.append(token)
            elif token == "[" and self._owner == r"\sqrt" and self._owed:
                end = next((place for place in range(position, len(tokens)) if tokens[place] == "]"), len(tokens))
                self._out += [token, *tokens[position : end + 1]]  # the root's degree
                position = end + 1
            elif token == "{":
                self._open()
            elif token == "}":
                if not self._groups:
                    return None
                self._close()
            else:
                self._plain(token)
        return None if self._groups else "".join(self._out)

    def _open(self) -> None:
        if self._owed:
            self._out.append("{")
            self._groups.append(("}", self._owed - 1, self._ends()))
        else:
            self._multiply("(")
            self._out.append("(")
            self._groups.append((")", 0, VALUE))
        self._owed, self._last = 0, OTHER

    def _ends(self) -> str:
        """What the argument of the last command ends: an index is no factor."""
        return OTHER if self._owner == "_" else VALUE

    def _close(self) -> None:
        mark, self._owed, self._last = self._groups.pop()
        self._out.append(mark)

    def _plain(self, token: str) -> None:
        if self._owed and token not in ARGUMENTS:
            # An argument without braces: x^2, where a product may follow.
            self._out.append(token)
            self._owed, self._last = self._owed - 1, self._ends()
            return
        self._multiply(token)
        self._out.append(token)
        # The power of a function's name, as in \sin^2(x), ends no factor.
        named = token == "^" and CALLED.fullmatch(self._owner) is not None
        self._owed, self._owner = ARGUMENTS.get(token, 0), "_" if named else token
        if token in ")]!":
            self._last = VALUE
        elif token[0].isdigit() or token[0] == ".":
            self._last = NUMBER
        else:
            lone = token in CONSTANTS or (len(token) == 1 and token.islower() and token not in FUNCTIONS)
            self._last = UNKNOWN if lone else OTHER

    def _multiply(self, token: str) -> None:
        opens = token in "(["
        operand = opens or token[0].isdigit() or token in (r"\frac", r"\sqrt", r"\binom")
        if (self._last == VALUE and operand) or (self._last in (NUMBER, UNKNOWN) and opens):
            self._out.append(r"\cdot ")
