"""Text that a reader typed arrives as it was typed, and nothing in it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Bench

HOSTILE = [
    "plain",
    "with spaces  and\ttabs",
    "it's",
    'say "hi"',
    "$(touch PWNED)",
    "`touch PWNED`",
    "$HOME ${HOME} $((1+1))",
    "-rf",
    "--help",
    "a;touch PWNED;b & c | d > PWNED < e",
    "line\ntouch PWNED\n",
    "中文 路径",
    "back\\slash \\$(touch PWNED) \\",
    "!history *glob? [a-z] {a,b} ~ #comment",
    "'; touch PWNED; '",
    "\"'$(touch PWNED)'\"",
    "@COMMIT@ @TRAIN_ARGUMENTS@",
    "SLIME_SGLANG",
    "%s %n %q",
]

TEXTS = (
    "hf", "train", "data", "save", "megatron", "endpoints", "shared", "local", "ib", "generate", "reward",
    "queueDir", "queueRun", "declaration", "draft", "mambaRatio",
)  # fmt: skip


def stripped(text: str) -> str:
    """What sanitising leaves: no control characters, no space at the ends."""
    return "".join(character for character in text if ord(character) >= 32 and ord(character) != 127).strip()


def arguments(bench: Bench, **choices: Any) -> list[str]:
    """The trainer's argument vector, as bash builds it from the generated file."""
    text = bench.make(**choices)
    assert text.endswith('\nmain "$@"\n')
    source = text.removesuffix('main "$@"\n') + "RUN_DIR=/run\ntrain_arguments\nprintf '%s\\0' \"${ARGUMENTS[@]}\"\n"
    (bench.folder / "arguments.sh").write_text(source, encoding="utf-8")
    result = bench.bash("arguments.sh")
    assert result.returncode == 0, result.stderr
    return result.stdout.split("\0")[:-1]


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize("text", HOSTILE)
def test_every_text_reaches_the_trainer_as_typed(bench: Bench, text: str) -> None:
    wanted = stripped(text)
    absolute = f"{bench.folder}/{wanted}"
    words = arguments(
        bench, model="qwen3.8-27b", layout="separate", transport="delta", pd=True, straw=True, task="custom",
        speculative=True, draftSource="external", **dict.fromkeys(TEXTS, text),
    )  # fmt: skip
    for flag in ("--hf-checkpoint", "--ref-load", "--save", "--prompt-data", "--update-weight-disk-dir"):
        assert after(words, flag) == absolute
    assert after(words, "--update-weight-local-checkpoint-dir") == absolute
    assert after(words, "--metrics-file") == absolute + "/metrics.jsonl"
    for flag in ("--custom-generate-function-path", "--custom-rm-path", "--rollout-data-dir", "--rollout-queue-run-id"):
        assert after(words, flag) == wanted
    for flag in ("--rollout-storage-declaration", "--sglang-speculative-draft-model-path"):
        assert after(words, flag) == wanted
    for flag in ("--sglang-mamba-full-memory-ratio", "--sglang-disaggregation-ib-device"):
        assert after(words, flag) == wanted
    assert not list(bench.folder.rglob("PWNED*"))


@pytest.mark.parametrize("text", HOSTILE)
def test_engine_addresses_arrive_one_by_one(bench: Bench, text: str) -> None:
    words = arguments(bench, layout="external", transport="disk", endpoints=text)
    start = words.index("--rollout-external-engine-addrs") + 1
    wanted = [part for part in stripped(text).split(" ") if part]
    assert words[start : start + len(wanted)] == wanted
    assert not list(bench.folder.rglob("PWNED*"))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_whole_run_with_hostile_folders(bench: Bench, text: str) -> None:
    name = stripped(text).replace("/", "_")
    root, save = f"{name}/material", f"{name}/out"
    bench.make(model="tiny", hf=f"{root}/hf", train=f"{root}/dist", data=f"{root}/data/train.jsonl", save=save)
    for stage in ("prepare", "convert", "check", "train"):
        result = bench.run(stage)
        assert result.returncode == 0, (stage, result.stderr)
    *_, submission, trainer = bench.calls()
    assert trainer[:4] == ["python", "-m", "slime", "train"]
    assert after(trainer, "--save") == f"{bench.folder}/{save}"
    assert trainer[trainer.index("heldout") + 1] == f"{bench.folder}/{root}/data/heldout.jsonl"
    assert after(trainer, "--hf-checkpoint") == f"{bench.folder}/{root}/hf"
    folder = Path(submission[submission.index("--runtime-env") + 1]).parent
    assert json.loads((folder / "runtime-env.json").read_text())["env_vars"]["PYTHONUNBUFFERED"] == "1"
    assert not list(bench.folder.rglob("PWNED*"))
    assert not list(Path("/").glob("PWNED*"))


@pytest.mark.parametrize("text", HOSTILE)
def test_the_serving_reference_quotes_its_texts(bench: Bench, text: str) -> None:
    bench.make(
        "serving-reference.sh", model="qwen3.8-27b", layout="external", transport="disk", endpoints="a:1", pd=True,
        **{name: text for name in TEXTS if name not in ("endpoints", "shared")}, shared=str(bench.folder),
    )  # fmt: skip
    stub = bench.bin / "python"
    stub.unlink()
    stub.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\n")
    stub.chmod(0o755)
    result = bench.bash("serving-reference.sh", "decode", HOST="10.0.0.1", PORT="30000")
    assert result.returncode == 0, result.stderr
    words = result.stdout.split("\0")[:-1]
    assert words[:2] == ["-m", "sglang.launch_server"]
    assert after(words, "--model-path") == stripped(text)
    assert after(words, "--disaggregation-ib-device") == stripped(text)
    assert after(words, "--mamba-full-memory-ratio") == stripped(text)
    assert after(words, "--disaggregation-mode") == "decode"
    assert not list(bench.folder.rglob("PWNED*"))
