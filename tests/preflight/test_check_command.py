"""`slime check`: everything that is wrong in one list, each with its rule; levels, JSON, exit status, notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slime.config import ConfigError, Problem, as_arguments, make_config
from slime.config.command import check, read_inputs
from slime.config.preflight import RULES, examine, preflight
from slime.config.preflight.notes import notes
from slime.train import recipe_dimensions

from .bench import DIMENSIONS, Bench
from .host_cases import run_of


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray cluster that others run on this machine is no part of these tests."""
    monkeypatch.setenv("RAY_ADDRESS", "local")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def words_of(bench: Bench, **changes: object) -> list[str]:
    return as_arguments(make_config(**{**bench.flags, **changes}))


def test_a_run_that_is_right(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(words_of(bench), lambda recipe: DIMENSIONS) == 0
    out = capsys.readouterr().out
    assert "note: 1 training GPU / 1 per copy = DP 1; 1 engine of 1 GPU" in out
    assert "note: --prompt-data: 20 prompts, half of them up to 9 tokens, 99% up to 9, the longest 9" in out
    assert "note: the first prompt as the model sees it: '<|im_start|>user\\n0 + 1 =<|im_end|>" in out
    assert "note: starts at round 0 from " in out
    assert "slime check: cfg, hf, data, host: 0 errors, 0 warnings" in out


def test_everything_is_found_at_once(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that is planned, a rule of the flags, a broken checkpoint, a broken row and a busy folder: one list."""
    words = [*words_of(bench), "--tensor-model-parallel-size", "3", "--global-batch-size", "5", "--use-wandb"]
    bench.config(eos_token_id=None, vocab_size=40)
    bench.rows("train.jsonl", [{"prompt": "1 + 1 ="}])
    bench.text("run/latest_checkpointed_iteration.txt", "2")
    assert check(words) == 2
    err = capsys.readouterr().err
    for text in (
        "error: [cfg] --use-wandb is planned",
        "error: [cfg train-world] 1 training GPU",
        "error: [cfg whole-steps] 8 prompts x 4 answers = 32 samples a round do not divide into steps of 5",
        "error: [hf trainer-heads] --tensor-model-parallel-size 3 does not divide the model's 4 attention heads",
        "error: [hf vocabulary] ",
        "error: [data prompt-files] --prompt-data ",
        "error: [host own-save-folder] --save ",
    ):
        assert text in err


def test_levels_json_and_exit_status(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_of(bench)
    (bench.folder / "train.jsonl").unlink()
    assert check([*words, "--level", "hf"]) == 0
    assert check([*words, "--level", "data", "hf", "--json"]) == 1
    out = capsys.readouterr().out
    found = json.loads(out[out.index("{") :])
    assert [(item["level"], item["rule"]) for item in found["problems"]] == [("data", "prompt-files")]
    assert check([*words, "--no-such-flag"]) == 2
    assert check([*words, "--level", "all"]) == 2
    assert check(["--help"]) == 0


def test_a_misspelt_flag_and_key_are_refused_with_the_nearest(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Known failures 63 and 64: the parser refuses what it does not know, on the command line and in files."""
    bench.text("more.yaml", "rollout-bach-size: 4\n")
    assert check([*words_of(bench), "--rollout-batchsize", "4", "--config", str(bench.folder / "more.yaml")]) == 2
    err = capsys.readouterr().err
    assert "unknown flag --rollout-batchsize" in err
    assert "did you mean --rollout-batch-size?" in err
    assert "more.yaml:1: unknown flag --rollout-bach-size" in err


def test_files_are_merged_before_anything_is_derived(bench: Bench) -> None:
    bench.text("more.yaml", "n-samples-per-prompt: 2\n")
    inputs, planned = read_inputs([*words_of(bench), "--config", str(bench.folder / "more.yaml")])
    assert planned == []
    assert inputs.config.global_batch_size == 16


@pytest.mark.parametrize("flag", ["--rollout-temperature", "--seq-length"])
def test_what_the_parser_prevents(bench: Bench, flag: str) -> None:
    """Known failures 57 and 32: there is one temperature, above 0, and no sequence length beside it."""
    with pytest.raises(ConfigError, match=flag):
        read_inputs([*words_of(bench), flag, "0"])


def test_it_compares_with_the_recipe(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def dimensions_of(recipe: str) -> dict[str, object]:
        asked.append(recipe)
        return {**DIMENSIONS, "layers": 3}

    assert check(words_of(bench, recipe="tiny"), dimensions_of) == 1
    assert asked == ["tiny"]
    assert "layers 2, the recipe's model file says 3" in capsys.readouterr().err


def test_an_unknown_recipe_is_refused_with_the_nearest(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert check([*words_of(bench), "--recipe", "glm-4.6"], recipe_dimensions) == 2
    assert "--recipe glm-4.6: there is no such recipe" in capsys.readouterr().err


def test_a_nested_language_model_is_read(bench: Bench) -> None:
    whole = json.loads((bench.folder / "hf" / "config.json").read_text())
    inner = {key: value for key, value in whole.items() if key != "model_type"}
    bench.write("hf/config.json", {"model_type": "qwen3", "text_config": {**inner, "model_type": "qwen3_text"}})
    assert examine(bench.inputs(), ["hf"]) == []


@pytest.mark.parametrize("flag", ["save", "prompt_data", "metrics_file", "ref_load", "load", "hf_checkpoint"])
def test_a_name_that_is_too_long(bench: Bench, flag: str) -> None:
    long = str(bench.folder / ("a" * 300)) + (".jsonl" if flag == "prompt_data" else "")
    bench.set(**{flag: long})
    text = "\n".join(str(problem) for problem in examine(bench.inputs()))
    assert long in text
    assert "File name too long" in text


def test_two_rules_never_say_one_thing_twice(bench: Bench) -> None:
    """A missing folder is one finding: the rules that would read from it stay silent."""
    bench.set(hf_checkpoint=str(bench.folder / "none"))
    found: list[Problem] = examine(bench.inputs(), ["hf"])
    assert [one.rule for one in found] == ["config-file"]
    bench.set(hf_checkpoint=str(bench.folder / "hf"), ref_load=str(bench.folder / "hf"))
    (bench.folder / "hf" / "model.safetensors").unlink()
    assert len({one.message for one in examine(bench.inputs())}) == 1


def test_preflight_looks_at_this_machine(bench: Bench) -> None:
    """Nothing is made up here: the real machine, its libraries and its Ray."""
    config = make_config(**bench.flags)
    assert {one.rule for one in preflight(config, DIMENSIONS, ["host"])} <= {"versions", "open-files", "disk-space"}


def test_the_list_of_known_failures_is_complete() -> None:
    rows = sorted(rule.row for rule in RULES if rule.row is not None)
    assert rows == list(range(1, 77))
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--level"], "--level needs a value: one or more of cfg, hf, data, host"),
        (["--level="], "--level needs a value"),
        (["--level", "cfg", "--level"], "--level needs a value"),
        (["--level", "cgf"], "--level cgf: not one of cfg, hf, data, host; did you mean cfg?"),
        (["--level=hots"], "did you mean host?"),
        (["--json=true"], "--json"),
    ],
)
def test_levels_that_there_are_not(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(words) == 2
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "note"),
    [
        ({}, "continues RUN after round 1: 2 of 4 rounds are left"),
        ({"start_rollout_id": 3}, "continues RUN after round 1 at round 3: 1 of 4 rounds are left"),
        ({"finetune": True}, "starts at round 0 from RUN"),
        ({"ckpt_step": 7}, None),
    ],
)
def test_the_note_says_where_the_run_starts(tmp_path: Path, flags: dict[str, object], note: str | None) -> None:
    bench = Bench(tmp_path)
    run_of(1)(bench)
    bench.set(**flags)
    said = notes(bench.inputs(), ["host"])
    assert [line.replace(str(tmp_path / "run"), "RUN") for line in said] == ([] if note is None else [note])
    if note is None:
        (problem,) = examine(bench.inputs(), ["host"])
        assert problem.rule == "checkpoint-steps"
