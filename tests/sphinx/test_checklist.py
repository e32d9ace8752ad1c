"""The list of promises names tests that exist, and has a row for each promise and each known weakness."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LIST = REPOSITORY / "tests" / "CHECKLIST.md"
PROMISES, WEAKNESSES = 23, 36


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names of a file's tests."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return frozenset(one.name for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef))
    return frozenset(re.findall(r'^\s*test\("([^"]+)"', text, re.MULTILINE))


def rows(heading: str) -> list[str]:
    """The rows of the table under a heading, without its head."""
    section = LIST.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_every_row_names_tests_that_exist() -> None:
    """Paths, names of functions and titles of JavaScript tests, to the letter."""
    missing = []
    for row in [*rows("Promises of the tutorial"), *rows("Weaknesses of earlier labs")]:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named, f"no test in the row: {row}"
        for one in named:
            path, _, name = one.partition("::")
            file = REPOSITORY / path
            if not file.is_file() or (name and name not in names_in(file)) or (not name and file.suffix != ".yaml"):
                missing.append(one)
    assert missing == []


def test_no_promise_and_no_weakness_is_left_out() -> None:
    """Weaknesses are numbered from 1 to 36 without a gap."""
    assert len(rows("Promises of the tutorial")) == PROMISES
    numbers = [int(row.split("|")[1]) for row in rows("Weaknesses of earlier labs")]
    assert numbers == list(range(1, WEAKNESSES + 1))
