"""Stands in for ray, hf, torchrun and python on the PATH of a shell under test.

Each call writes its argument vector, NUL-separated, to a file of its own in ``STUB_LOG``. The stub then does the one
visible thing that the real program would do to the files, so that the next stage finds them. A word of the command
line that contains ``STUB_FAIL`` makes the call fail with exit status 7 after leaving half of its work behind.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path


def record(name: str, words: list[str]) -> None:
    log = Path(os.environ["STUB_LOG"])
    path = log / f"{len(list(log.iterdir())):03d}-{name}"
    path.write_bytes(b"\0".join(os.fsencode(word) for word in [name, *words]))


def option(words: list[str], flag: str) -> Path:
    return Path(words[words.index(flag) + 1])


def write(path: Path, text: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def fail_if_asked(words: list[str], half: Path | None) -> None:
    pattern = os.environ.get("STUB_FAIL")
    if pattern and any(pattern in word for word in words):
        if half is not None:
            write(half / "half-written")
        sys.exit(7)


def hf(words: list[str]) -> int:
    folder = option(words, "--local-dir")
    fail_if_asked(words, folder)
    if "dataset" in words:
        write(folder / "dapo-math-17k.jsonl", '{"prompt": "1+1", "label": "2"}\n')
    else:
        write(folder / "config.json")
    return 0


def slime(words: list[str]) -> int:
    """``python -m slime`` and, under torchrun, the same words."""
    command = words[0]
    if command == "tiny":
        root = option(words, "--output")
        fail_if_asked(words, root)
        write(root / "hf" / "config.json")
        write(root / "data" / "train.jsonl")
        write(root / "data" / "heldout.jsonl")
    elif command == "convert":
        folder = option(words, "--save")
        fail_if_asked(words, folder)
        write(folder / ("latest_checkpointed_iteration.txt" if words[1] == "hf-to-megatron" else "config.json"))
    else:
        fail_if_asked(words, None)
    return 0


def ray(words: list[str]) -> int:
    """Runs the job as Ray does: the words after ``--`` joined, handed to a shell, in another folder.

    Ray 2.60 joins with ``shlex.join``; earlier ones with ``list2cmdline``, which leaves ``$`` and backticks alive.
    """
    if "RAY_ADDRESS" in os.environ or "RAY_API_SERVER_ADDRESS" in os.environ:
        return 9  # Ray would submit there, whatever --address says
    fail_if_asked(words, None)
    entry = words[words.index("--") + 1 :]
    variables = json.loads(option(words, "--runtime-env").read_text())["env_vars"]
    command = subprocess.list2cmdline(entry) if "STUB_OLD_RAY" in os.environ else shlex.join(entry)
    return subprocess.run(["/bin/sh", "-c", command], cwd="/", env={**os.environ, **variables}, check=False).returncode


def main() -> int:
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    if name == "python" and words[0] in ("-c", "-"):
        bare = ["-I", "-S"] if "STUB_BARE" in os.environ else []  # an interpreter without installed packages
        os.execv(sys.executable, [sys.executable, *bare, *words])
    record(name, words)
    if name == "python":
        return slime(words[2:])
    if name == "torchrun":
        return slime(words[words.index("-m") + 2 :])
    return {"hf": hf, "ray": ray}[name](words)


if __name__ == "__main__":
    sys.exit(main())
