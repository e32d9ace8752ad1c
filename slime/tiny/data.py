"""Two-digit addition, split into training and held-out problems that share no pair of operands."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from slime.tiny.tokenizer import BOX_CLOSE, BOX_OPEN

LARGEST_OPERAND = 49
HELD_OUT = 400


@dataclass(frozen=True)
class Problem:
    """``left + right``. Operands are written with two digits, so that every prompt has the same length."""

    left: int
    right: int

    @property
    def prompt(self) -> str:
        """What the user asks, for example ``07+35=``."""
        return f"{self.left:02d}+{self.right:02d}="

    @property
    def label(self) -> str:
        """The gold answer, for example ``42``."""
        return str(self.left + self.right)

    @property
    def answer(self) -> str:
        r"""The answer in the form that the `math` grader reads, for example ``\boxed{42}``."""
        return f"{BOX_OPEN}{self.label}{BOX_CLOSE}"


def split_problems(seed: int) -> tuple[list[Problem], list[Problem]]:
    """All 2,500 ordered pairs of operands 0-49, shuffled by `seed`: (2,100 for training, 400 held out).

    ``3+4`` and ``4+3`` are different problems, so a held-out problem may have its mirror image in training.
    """
    size = LARGEST_OPERAND + 1
    problems = [Problem(left, right) for left in range(size) for right in range(size)]
    random.Random(seed).shuffle(problems)
    return problems[HELD_OUT:], problems[:HELD_OUT]


def write_problems(path: Path, problems: list[Problem]) -> None:
    """Write one JSON object with ``prompt`` and ``label`` a line."""
    lines = [json.dumps({"prompt": problem.prompt, "label": problem.label}) + "\n" for problem in problems]
    path.write_text("".join(lines), encoding="utf-8")
