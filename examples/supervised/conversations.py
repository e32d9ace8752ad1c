"""Turns the problems that `slime tiny` made into conversations: python examples/supervised/conversations.py FOLDER

Writes FOLDER/conversations.jsonl, a conversation a line. Of each, the assistant's turn trains, its end token included.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def conversation(problem: dict[str, str]) -> list[dict[str, str]]:
    """A question and its right answer, as messages."""
    return [
        {"role": "user", "content": problem["prompt"]},
        {"role": "assistant", "content": f"\\boxed{{{problem['label']}}}"},
    ]


def main() -> None:
    """Write the file."""
    folder = Path(sys.argv[1])
    lines = (folder / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.dumps({"messages": conversation(json.loads(line))}) + "\n" for line in lines]
    target = folder / "conversations.jsonl"
    target.write_text("".join(rows), encoding="utf-8")
    print(f"{target}: {len(rows)} conversations")


if __name__ == "__main__":
    main()
