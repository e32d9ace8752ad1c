"""Every block of Python and shell on the pages runs here, or says on the line above it why it does not.

A page's Python blocks share one namespace, top to bottom. Shell blocks of a page run in one empty folder, in order;
those that are flags alone are looked up.
The reason is a comment that readers do not see: ``% not run: it needs two GPUs``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from slime.config import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS / "en")) for path in (DOCS / "en").rglob("*.md"))
_FENCE = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block: its text, where it begins, and why it does not run."""

    language: str
    text: str
    line: int
    reason: str


@cache
def blocks(page: str, tree: str = "en") -> list[Block]:
    text = (DOCS / tree / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()].splitlines()
        reason = re.fullmatch(r"% not run: (.+)", before[-1]) if before else None
        found.append(Block(match[1], match[2], len(before) + 1, reason[1] if reason else ""))
    return found


def _pages(language: str) -> list[str]:
    return [page for page in PAGES if any(b.language == language and not b.reason for b in blocks(page))]


@pytest.mark.parametrize("page", _pages("python"))
@pytest.mark.parametrize("tree", ["en", "zh"])
def test_python_blocks_run(page: str, tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    for block in blocks(page, tree):
        if block.language == "python" and not block.reason:
            # Empty lines put the line numbers of an error where the page has them.
            exec(compile("\n" * block.line + block.text, str(DOCS / tree / page), "exec"), module.__dict__)


@pytest.mark.parametrize("page", _pages("bash"))
def test_shell_blocks_run(page: str, tmp_path: Path) -> None:
    """English pages alone: `test_commands_are_the_same_in_both_languages` says why that is enough."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["HOME"] = environment["TMPDIR"] = str(tmp_path)
    for block in blocks(page):
        if block.language != "bash" or block.reason or block.text.startswith("--"):
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text], cwd=tmp_path, env=environment, text=True,
            capture_output=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{page}:{block.line}\n{block.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES)
def test_shell_blocks_are_shell(page: str) -> None:
    """Also those that do not run are read by bash, and their training flags exist."""
    for block in blocks(page):
        if block.language == "bash":
            command = f"slime train {block.text}" if block.text.startswith("--") else block.text
            read = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
            assert read.returncode == 0, f"{page}:{block.line}\n{read.stderr}"
            if re.match(r"--|slime train|python -m slime train|bash experiment.sh train", block.text):
                for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", block.text):
                    assert flag in {*REGISTRY, "--help", "--config", "--dry-run"}, f"{page}:{block.line}: {flag}"


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_run_the_same_blocks(page: str) -> None:
    """The same number of blocks of each kind, and the same ones left out."""
    english, chinese = ([(b.language, bool(b.reason)) for b in blocks(page, tree)] for tree in ("en", "zh"))
    assert english == chinese
    code = [
        [re.sub(r"(?m) *#.*$", "", b.text) for b in blocks(page, tree) if b.language == "python"]
        for tree in ("en", "zh")
    ]
    assert code[0] == code[1]
