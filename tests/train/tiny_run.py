"""Commands and processes of the tiny experiment: every run is a process of its own, as for a user."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# A run with its start on two busy cores takes about a minute; a hang must not take the suite along.
RUN_SECONDS = 240
# Each test's run starts a Ray cluster of its own, whatever else runs on this machine.
ENVIRONMENT = {**os.environ, "RAY_ADDRESS": "local", "OMP_NUM_THREADS": "1"}


def slime(*words: str, timeout: float = RUN_SECONDS, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m slime ...` to its end, in `folder` when it is given."""
    return subprocess.run(
        [sys.executable, "-m", "slime", *words],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=folder,
    )


@dataclass
class Experiment:
    """Paths of the tiny experiment and the flags that train it: 8 prompts x 8 samples a round."""

    root: Path

    def words(self, save: Path, **changes: object) -> list[str]:
        """The words after `slime`; a change to None removes a flag, to True makes it a switch."""
        tiny = self.root
        flags: dict[str, object] = {
            "device": "cpu",
            "hf-checkpoint": tiny / "hf",
            "ref-load": tiny / "torch_dist",
            "load": save,
            "save": save,
            "save-interval": 2,
            "prompt-data": tiny / "data" / "train.jsonl",
            "input-key": "prompt",
            "label-key": "label",
            "apply-chat-template": True,
            "rollout-shuffle": True,
            "rm-type": "math",
            "num-rollout": 4,
            "rollout-batch-size": 8,
            "n-samples-per-prompt": 8,
            "rollout-max-response-len": 8,
            "lr": "4e-4",
            "lr-warmup-iters": 2,
            "attention-dropout": 0,
            "hidden-dropout": 0,
            "colocate": True,
            "actor-num-gpus-per-node": 1,
            "use-dynamic-batch-size": True,
            "max-tokens-per-gpu": 8192,
            "metrics-file": save / "metrics.jsonl",
        }
        flags |= {name.replace("_", "-"): value for name, value in changes.items()}
        words = ["train"]
        for name, value in flags.items():
            if value is not None:
                words += [f"--{name}"] if value is True else [f"--{name}", *str(value).split(" ")]
        return words


def processes_naming(text: str) -> list[int]:
    """Processes, other than this one, whose command line contains `text`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in words and int(entry.parent.name) != os.getpid():
            found.append(int(entry.parent.name))
    return found
