"""`slime tiny`: complete, resumable, and never half there."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from slime.tiny import build as build_module
from slime.tiny.command import add_parser, run

pytestmark = pytest.mark.runtime


def tiny(*words: object) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["tiny", *map(str, words)]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("tiny") / "slime-tiny"
    assert tiny("--output", output, "--seed", 0) == 0
    return output


@pytest.mark.slow
def test_a_loadable_model_that_solves_some_problems(made: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(made / "hf", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(made / "hf")
    assert sum(parameter.numel() for parameter in model.parameters()) == 426_752
    rows = [json.loads(line) for line in (made / "data" / "heldout.jsonl").read_text().splitlines()]
    chats = [[{"role": "user", "content": row["prompt"]}] for row in rows]
    inputs = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    torch.manual_seed(0)
    right = 0
    for _ in range(4):
        output = model.generate(**inputs, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=8)
        texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        right += sum(text == f"\\boxed{{{row['label']}}}" for text, row in zip(texts, rows, strict=True))
    accuracy = right / (4 * len(rows))
    assert 0.33 < accuracy < 0.52
    manifest = json.loads((made / "hf" / ".slime-tiny.json").read_text())
    assert accuracy == pytest.approx(manifest["result"]["held_out_accuracy"], abs=0.04)


def test_a_checkpoint_is_no_place_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    for words in ((), ("--force",)):
        assert tiny("--output", tmp_path, *words) == 2
        assert "is a checkpoint (it has config.json)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.slow
def test_a_complete_folder_is_left_alone(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert tiny("--output", made, "--seed", 0) == 0
    assert capsys.readouterr().out.count("complete (seed 0)") == 2
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
    assert tiny("--output", made, "--seed", 1) == 2
    assert "was made with seed 0 (format 1), not seed 1" in capsys.readouterr().err


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the warm start, whose half minute has its own test, by a file of fixed content."""
    calls: list[str] = []

    def make(folder: Path, seed: int, report: Any) -> dict[str, Any]:
        calls.append("hf")
        (folder / "model.safetensors").write_text(str(seed))
        return {}

    monkeypatch.setattr(build_module, "_make_model", make)
    return calls


def test_a_file_or_nothing_is_no_output_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    for text, part in (("", "it is empty"), (str(tmp_path / "file"), "is a file; name a folder")):
        with pytest.raises(SystemExit):
            tiny("--output", text)
        assert part in capsys.readouterr().err


def test_what_is_missing_is_made_and_the_rest_kept(tmp_path: Path, fast: list[str]) -> None:
    output = tmp_path / "out"
    assert tiny("--output", output) == 0
    train = (output / "data" / "train.jsonl").read_bytes()
    for path in (output / "hf").iterdir():
        path.unlink()
    (output / "hf").rmdir()
    (output / ".hf.abc.partial").mkdir()  # a run that was killed
    assert tiny("--output", output) == 0
    assert fast == ["hf", "hf"]
    assert sorted(path.name for path in output.iterdir()) == ["data", "hf"]
    assert (output / "data" / "train.jsonl").read_bytes() == train


def test_a_failure_leaves_no_part_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path, seed: int, report: Any) -> dict[str, Any]:
        (folder / "config.json").write_text("{}")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build_module, "_make_model", fail)
    assert tiny("--output", tmp_path / "out") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["data"]


def test_changed_and_foreign_folders_are_refused(
    tmp_path: Path, fast: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert tiny("--output", output) == 0
    (output / "data" / "train.jsonl").write_text("changed\n")
    assert tiny("--output", output) == 2
    assert "train.jsonl is not as it was written" in capsys.readouterr().err
    (output / "data" / "train.jsonl").unlink()
    assert tiny("--output", output) == 2
    assert "train.jsonl is missing" in capsys.readouterr().err
    (output / "data" / ".slime-tiny.json").unlink()
    assert tiny("--output", output) == 2
    assert "`slime tiny` did not make it" in capsys.readouterr().err
    kept = (output / "data" / "heldout.jsonl").read_bytes()
    assert tiny("--output", output, "--force") == 2
    assert "was not made by this command" in capsys.readouterr().err
    assert (output / "data" / "heldout.jsonl").read_bytes() == kept
    (output / "data").rename(output / "mine")
    (output / "hf" / "model.safetensors").write_text("changed")
    assert tiny("--output", output, "--force") == 0
    assert tiny("--output", output) == 0


@pytest.mark.parametrize("seed", ["-1", "1.5", "x", str(2**32)])
def test_a_seed_is_a_natural_number(tmp_path: Path, seed: str) -> None:
    with pytest.raises(SystemExit) as caught:
        tiny("--output", tmp_path, f"--seed={seed}")
    assert caught.value.code == 2
