"""Kills a saving run 50 times at random moments, twice: ``python bench/interrupted_saves.py``.

One process that saves in the foreground, and two that share the optimizer's state and save in the background. The
cases are those of tests/megatron, which kills fewer. Each run loads what the killed one before it left and compares
every weight and moment with its step. Writes ``bench/results/interrupted-saves.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.megatron.megatron_cases import make_hf_model  # noqa: E402
from tests.megatron.test_saves import check_kill, kill_saves  # noqa: E402

RUNS = {"foreground, one process": (1, False), "background, two processes": (2, True)}
MOMENTS = {
    ".txt.partial": "while the tracker was replaced",
    ".partial": "while the folder was written",
    ".deleted": "while an old checkpoint was deleted",
}
"""By the end of a name that the kill left behind; the first that fits."""
OTHER = "while nothing was half done on disk"


def moment(kill: dict[str, Any]) -> str:
    """When the kill came, from what it left half done."""
    for end, text in MOMENTS.items():
        if any(name.endswith(end) for name in kill["left"]):
            return text
    return OTHER


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Kills by the moment at which they came."""
    counts = {name: Counter(moment(kill) for kill in kills) for name, kills in results.items()}
    texts = [*MOMENTS.values(), OTHER]
    rows = [f"| | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    rows += [f"| {text} | {' | '.join(str(one[text]) for one in counts.values())} |" for text in texts]
    rows.append(f"| kills | {' | '.join(str(len(kills)) for kills in results.values())} |")
    rows.append(f"| checkpoints lost | {' | '.join('0' for _ in results)} |")
    return "\n".join(rows)


def main() -> None:
    """Run, check and write. A checkpoint that is lost, or holds a number of another step, ends it with an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    args = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        hf = make_hf_model(Path(folder) / "hf")
        for index, (name, (ranks, background)) in enumerate(RUNS.items()):
            results[name] = kill_saves(hf, Path(folder) / str(index), args.kills, ranks, background)
            for kill in results[name]:
                check_kill(kill, background)
    write(results, args.results)


def write(results: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    """The raw numbers and the table."""
    (folder / "interrupted-saves.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text = (
        "# Saves that were killed\n\n`python bench/interrupted_saves.py`, on a CPU: a run that does nothing but save "
        "is killed with SIGKILL at a random moment; the next one resumes from what is left.\n\n"
        f"{table(results)}\n\nAfter every kill the tracker named a checkpoint that was at least as new as the last "
        "whole save, and each of its weights and moments was that of its step.\n"
    )
    (folder / "interrupted-saves.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
