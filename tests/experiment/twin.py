"""Ask the JavaScript engine: one node process for a whole list of requests, answers compared as bytes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).parents[1] / "js" / "runner.mjs"


def canonical(value: Any) -> str:
    """JSON with sorted keys; dataclasses are mappings."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=asdict)


def ask(catalog: dict[str, Any], requests: Sequence[Sequence[Any]]) -> list[str]:
    """The answers to ``[method, *arguments]`` requests, one JSON text each."""
    node = shutil.which("node")
    assert node is not None, "node (20 or later) must be on PATH: the page's engine is tested with it"
    lines = [json.dumps(catalog), *(json.dumps(request) for request in requests)]
    text = "\n".join(lines) + "\n"
    done = subprocess.run([node, str(RUNNER)], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(requests), done.stderr
    return answers
