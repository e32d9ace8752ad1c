"""Preflight: each thing that can be missing or broken is named before anything starts."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from slime.config import Config, Problem, as_arguments, preflight
from slime.config.command import add_parser, check
from slime.config.preflight import host
from slime.config.preflight.dimensions import check_dimensions

Build = Callable[..., Config]

QWEN3 = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 128,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "max_position_embeddings": 512,
}

# The keys of a model file; decimals are text there.
QWEN3_DIMENSIONS = {
    "hf_model_type": "qwen3",
    "layers": 2,
    "hidden": 128,
    "ffn": 384,
    "heads": 4,
    "kv_groups": 2,
    "head_dim": 32,
    "vocab": 128,
    "rope_base": 10000,
    "rotary_percent": "1",
    "norm_eps": "1e-6",
    "tied_embeddings": False,
    "qk_norm": True,
    "moe": None,
    "mla": None,
    "mtp_layers": 0,
}


GOOD = '{"prompt": "1 + 1 =", "label": "2"}'


def write_safetensors(path: Path, tensors: dict[str, int]) -> None:
    """Write the safetensors format by hand: names with their number of bytes, all zero."""
    header: dict[str, object] = {}
    position = 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(position))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A folder in which every preflight check passes: hf/, torch_dist/, train.jsonl, heldout.jsonl."""
    hf = tmp_path / "hf"
    hf.mkdir()
    (hf / "config.json").write_text(json.dumps(QWEN3))
    (hf / "tokenizer.json").write_text("{}")
    (hf / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    write_safetensors(hf / "model.safetensors", {"model.norm.weight": 512, "lm_head.weight": 1024})
    (tmp_path / "torch_dist" / "iter_0000000").mkdir(parents=True)
    (tmp_path / "torch_dist" / "latest_checkpointed_iteration.txt").write_text("0")
    rows = [{"prompt": f"{one} + 1 =", "label": str(one + 1)} for one in range(20)]
    for name in ("train.jsonl", "heldout.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def runnable(small: Callable[..., Config], run_folder: Path) -> Callable[..., Config]:
    """Like ``small``, with the paths of ``run_folder``."""

    def build(**changes: object) -> Config:
        paths = {
            "hf_checkpoint": str(run_folder / "hf"),
            "ref_load": str(run_folder / "torch_dist"),
            "prompt_data": str(run_folder / "train.jsonl"),
            "save": str(run_folder / "run"),
        }
        return small(**{**paths, **changes})

    return build


def one(problems: list[Problem]) -> str:
    """The text of the only problem."""
    assert len(problems) == 1, [str(problem) for problem in problems]
    return f"{problems[0].message} | {problems[0].hint}"


def rewrite(path: Path, **changes: object) -> None:
    data = json.loads(path.read_text())
    data.update(changes)
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


def test_a_complete_run_is_clean(runnable: Build) -> None:
    assert preflight(runnable(apply_chat_template=True), QWEN3_DIMENSIONS) == []


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("num_hidden_layers", 3, "layers 3, the recipe's model file says 2"),
        ("hidden_size", 256, "hidden 256"),
        ("intermediate_size", 512, "ffn 512"),
        ("num_attention_heads", 8, "heads 8"),
        ("num_key_value_heads", 4, "kv_groups 4"),
        ("head_dim", 64, "head_dim 64"),
        ("vocab_size", 130, "vocab 130"),
        ("rope_parameters", {"rope_theta": 1000000.0}, "rope_base 1000000.0"),
        ("partial_rotary_factor", 0.5, "rotary_percent 0.5"),
        ("rms_norm_eps", 1e-5, "norm_eps 1e-05"),
        ("tie_word_embeddings", True, "tied_embeddings True"),
        ("model_type", "llama", "hf_model_type llama"),
        ("num_nextn_predict_layers", 1, "mtp_layers 1"),
        ("max_position_embeddings", 20, "tokens exceed the 20 positions"),
    ],
)
def test_another_model_is_refused(runnable: Build, run_folder: Path, key: str, value: object, part: str) -> None:
    rewrite(run_folder / "hf" / "config.json", **{key: value})
    assert part in one(preflight(runnable(), QWEN3_DIMENSIONS, ["hf"]))


def test_older_spelling_of_rope_is_read(runnable: Build, run_folder: Path) -> None:
    rewrite(run_folder / "hf" / "config.json", rope_parameters=None, rope_theta=10000)
    assert preflight(runnable(), QWEN3_DIMENSIONS, ["hf"]) == []


def test_a_nested_language_model_is_read(runnable: Build, run_folder: Path) -> None:
    inner = {key: value for key, value in QWEN3.items() if key != "model_type"}
    text = json.dumps({"model_type": "qwen3", "text_config": {**inner, "model_type": "qwen3_text"}})
    (run_folder / "hf" / "config.json").write_text(text)
    assert preflight(runnable(), QWEN3_DIMENSIONS, ["hf"]) == []


def test_what_the_checkpoint_does_not_say_is_a_warning(runnable: Build, run_folder: Path) -> None:
    rewrite(run_folder / "hf" / "config.json", tie_word_embeddings=None)
    (problem,) = preflight(runnable(), QWEN3_DIMENSIONS, ["hf"])
    assert problem.severity == "warning"
    assert "does not state tied_embeddings" in problem.message


def test_experts_are_compared(runnable: Build, run_folder: Path) -> None:
    rewrite(run_folder / "hf" / "config.json", n_routed_experts=64, num_experts_per_tok=4, moe_intermediate_size=8)
    dimensions = {**QWEN3_DIMENSIONS, "moe": {"experts": 64, "topk": 8, "expert_ffn": 8, "dense_layers": None}}
    assert "moe.topk 4, the recipe's model file says 8" in one(preflight(runnable(), dimensions, ["hf"]))


def test_parallel_sizes_divide_the_heads(run_folder: Path) -> None:
    config = Config(hf_checkpoint=str(run_folder / "hf"), tensor_model_parallel_size=4)
    text = one(list(check_dimensions(config)))
    assert "--tensor-model-parallel-size 4 does not divide the model's 2 key-value heads | give 2" in text


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("config.json", None, "config.json: no such file"),
        ("config.json", "{", "config.json: not JSON"),
        ("config.json", "[]", "a JSON object is expected"),
        ("tokenizer.json", None, "has no tokenizer"),
        ("tokenizer_config.json", "{}", "has no chat template"),
        ("tokenizer_config.json", None, "tokenizer_config.json: no such file"),
        ("model.safetensors", None, "neither model.safetensors nor model.safetensors.index.json"),
        ("model.safetensors", "junk", "this is no safetensors file"),
        ("model.safetensors", "\x02\0\0\0\0\0\0\0[]", "not that of a safetensors file"),
    ],
)
def test_a_broken_checkpoint(runnable: Build, run_folder: Path, name: str, content: str | None, part: str) -> None:
    path = run_folder / "hf" / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert part in one(preflight(runnable(apply_chat_template=True), QWEN3_DIMENSIONS, ["hf"]))


def test_a_missing_checkpoint(runnable: Build, run_folder: Path) -> None:
    shutil.rmtree(run_folder / "hf")
    assert "no such folder" in one(preflight(runnable(), QWEN3_DIMENSIONS, ["hf"]))


def test_a_shard_that_was_cut_off(runnable: Build, run_folder: Path) -> None:
    path = run_folder / "hf" / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert f"has {len(whole) - 100} bytes, its header announces {len(whole)}" in one(
        preflight(runnable(), None, ["hf"])
    )
    path.write_bytes(whole[:20])
    assert "the header has 12 of its" in one(preflight(runnable(), None, ["hf"]))


def test_an_index_and_its_shards(runnable: Build, run_folder: Path) -> None:
    hf = run_folder / "hf"
    (hf / "model.safetensors").unlink()
    index = hf / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"}}))
    write_safetensors(hf / "1.safetensors", {"a": 4})
    assert "1 of 2 shards are missing: 2.safetensors" in one(preflight(runnable(), None, ["hf"]))
    write_safetensors(hf / "2.safetensors", {"b": 4})
    assert "lacks 1 tensors of the index, e.g. c" in one(preflight(runnable(), None, ["hf"]))
    write_safetensors(hf / "2.safetensors", {"b": 4, "c": 4})
    assert preflight(runnable(), None, ["hf"]) == []
    index.write_text(json.dumps({"weight_map": {"a": "../1.safetensors"}}))
    assert "not the name of a file beside the index" in one(preflight(runnable(), None, ["hf"]))
    index.write_text("{}")
    assert "it has no weight_map" in one(preflight(runnable(), None, ["hf"]))


def test_a_reference_without_tracker(runnable: Build, run_folder: Path) -> None:
    tracker = run_folder / "torch_dist" / "latest_checkpointed_iteration.txt"
    tracker.write_text("7")
    assert "names iter_0000007, and" in one(preflight(runnable(), None, ["hf"]))
    tracker.write_text("seven")
    assert "'seven'" in one(preflight(runnable(), None, ["hf"]))
    tracker.unlink()
    assert "latest_checkpointed_iteration.txt is missing | run the stage convert" in one(
        preflight(runnable(), None, ["hf"])
    )


def test_a_reference_in_the_layout_of_hugging_face(runnable: Build, run_folder: Path) -> None:
    config = runnable(ref_load=str(run_folder / "other"))
    shutil.copytree(run_folder / "hf", run_folder / "other")
    assert preflight(config, QWEN3_DIMENSIONS, ["hf"]) == []
    (run_folder / "other" / "model.safetensors").unlink()
    assert "other: neither model.safetensors nor" in one(preflight(config, None, ["hf"]))
    same = runnable(ref_load=str(run_folder / "hf"))
    (run_folder / "hf" / "model.safetensors").unlink()
    assert "hf: neither model.safetensors nor" in one(preflight(same, None, ["hf"]))  # said once


def test_a_load_that_resumes_nothing_is_a_warning(runnable: Build, run_folder: Path) -> None:
    assert preflight(runnable(load=str(run_folder / "run")), None, ["hf"]) == []  # the first start of a run
    (misspelt,) = preflight(runnable(load=str(run_folder / "rnu")), None, ["hf"])
    assert misspelt.severity == "warning"
    assert "rnu does not exist, so the run starts at round 0 with the weights of --ref-load" in misspelt.message
    (foreign,) = preflight(runnable(load=str(run_folder)), None, ["hf"])
    assert foreign.severity == "warning"
    assert "holds no checkpoint: latest_checkpointed_iteration.txt is missing" in foreign.message


def test_a_resumed_run_has_rounds_left(runnable: Build, run_folder: Path) -> None:
    folder = run_folder / "run"
    config = runnable(load=str(folder))
    assert preflight(config, None, ["hf"]) == []  # nothing saved yet: the run starts from --ref-load
    (folder / "iter_0000003").mkdir(parents=True)
    (folder / "latest_checkpointed_iteration.txt").write_text("3\n")
    assert "has finished round 3, so none of the 4 rounds" in one(preflight(config, None, ["hf"]))
    assert preflight(runnable(load=str(folder), num_rollout=5), None, ["hf", "host"]) == []
    assert "holds a run already (at 3)" in one(preflight(runnable(), None, ["host"]))


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        (['{"prompt": "1 + 1 =", "label": "2"}', '{"prompt": "x"}'], "train.jsonl:2: no key 'label' (--label-key)"),
        (
            ['{"prompt": "x", "labels": "2"}'],
            "the row has: prompt, labels. The nearest is 'labels': --label-key labels.",
        ),
        (
            ['{"question": "x", "label": "2"}'],
            "train.jsonl:1: no key 'prompt' (--input-key); the row has: question, label.",
        ),
        (['{"prompt": "x", "label": ""}'], "'label' is '': there is no reference answer"),
        (['{"prompt": "x", "label": null}'], "'label' is None"),
        (['{"prompt": " ", "label": "2"}'], "the prompt in 'prompt' is empty"),
        (["", "{"], "train.jsonl:2:2: not JSON"),
        (['{"prompt": "x", "label": {"a": 1}}'], "train.jsonl:1: label: the gold answer is"),
        (['{"prompt": "x", "label": NaN}'], "train.jsonl:1: label: the gold answer is nan; it must be finite"),
        (['{"prompt": [1, 2], "label": "2"}'], "train.jsonl:1: 'prompt' is neither text nor a list of messages"),
        (['{"prompt": [{}], "label": "2"}'], "neither text nor a list of messages with a role"),
        (['{"prompt": "\\ud800", "label": "2"}'], "half of a surrogate pair at character 0"),
        (["\ufeff" + GOOD], "train.jsonl:1:1: not JSON: Unexpected UTF-8 BOM"),
        ([*[GOOD] * 99, '{"prompt": "x", "lab'], "train.jsonl:100:17: not JSON: Unterminated string"),
        (['{"x": ' + "[" * 100_000 + "]" * 100_000 + "}"], "train.jsonl:1: nested too deeply to be read"),
        (['{"prompt": "x", "label": ' + "9" * 5000 + "}"], "train.jsonl:1: cannot be read: Exceeds the limit"),
        (["[1]"], "a row is a JSON object, this is a list"),
        ([""], "no rows left; the file holds 0"),
        (['{"prompt": 3, "label": "2"}'], "'prompt' is neither text nor a list of messages"),
        (['{"prompt": [{"role": "user", "content": "x"}], "label": "2"}'], "add --apply-chat-template"),
    ],
)
def test_a_broken_prompt_file(runnable: Build, run_folder: Path, rows: list[str], part: str) -> None:
    (run_folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    assert part in one(preflight(runnable(), None, ["data"]))


def test_prompts_that_are_templated_already(runnable: Build, run_folder: Path) -> None:
    row = {"prompt": "<|im_start|>user\n1 + 1<|im_end|>", "label": "2"}
    (run_folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    assert preflight(runnable(), None, ["data"]) == []
    (problem,) = preflight(runnable(apply_chat_template=True), None, ["data"])
    assert problem.severity == "warning"
    assert "train.jsonl:1: the prompt contains <|im_start|> already (1 of 1 rows do)" in problem.message


def test_evaluation_sets_are_read_too(runnable: Build, run_folder: Path) -> None:
    changes = {"eval_interval": 1, "eval_prompt_data": ["held", str(run_folder / "heldout.jsonl")]}
    assert preflight(runnable(**changes), None, ["data"]) == []
    (run_folder / "heldout.jsonl").unlink()
    text = one(preflight(runnable(**changes), None, ["data"]))
    assert "--eval-prompt-data held" in text
    assert "heldout.jsonl: no such file. The folder holds: train.jsonl." in text


def test_a_slice_names_the_file(runnable: Build, run_folder: Path) -> None:
    assert preflight(runnable(prompt_data=f"{run_folder}/train.jsonl@[2:-1]"), None, ["data"]) == []
    text = one(preflight(runnable(prompt_data=str(run_folder / "trian.jsonl")), None, ["data"]))
    assert "no such file. The folder holds: heldout.jsonl, train.jsonl." in text
    assert "the suffix '.txt' is unknown" in one(preflight(runnable(prompt_data="a.txt"), None, ["data"]))


@pytest.mark.parametrize("suffix", ["@[0:0]", "@[9999:]", "@[5:1]"])
def test_a_slice_without_rows(runnable: Build, run_folder: Path, suffix: str) -> None:
    text = one(preflight(runnable(prompt_data=f"{run_folder}/train.jsonl{suffix}"), None, ["data"]))
    assert f"train.jsonl{suffix}: no rows left; the file holds 20" in text


def test_only_the_rows_of_the_slice_are_checked(runnable: Build, run_folder: Path) -> None:
    path = run_folder / "train.jsonl"
    path.write_text('{"prompt": "x"}\n' + path.read_text())
    assert preflight(runnable(prompt_data=f"{path}@[1:]"), None, ["data"]) == []
    assert "train.jsonl:1: no key 'label'" in one(preflight(runnable(prompt_data=f"{path}@[:1]"), None, ["data"]))


def test_a_busy_port_is_refused(runnable: Build) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = one(preflight(runnable(sglang_port=port), None, ["host"]))
        assert f"cannot bind port {port} on 127.0.0.1" in text
    assert preflight(runnable(sglang_port=port), None, ["host"]) == []


def test_ports_for_all_engines(runnable: Build) -> None:
    config = runnable(actor_num_gpus_per_node=2, sglang_port=65535)
    assert "no room for 2 engines" in one(preflight(config, None, ["host"]))


def test_output_paths(runnable: Build, run_folder: Path) -> None:
    (run_folder / "folder").mkdir()
    changes = {"metrics_file": str(run_folder / "folder"), "tensorboard_dir": str(run_folder / "train.jsonl" / "x")}
    first, second = preflight(runnable(**changes), None, ["host"])
    assert "is a folder" in first.message
    assert "train.jsonl is a file, not a folder" in second.message


@pytest.mark.parametrize("flag", ["save", "prompt_data", "metrics_file", "ref_load", "load", "hf_checkpoint"])
def test_a_name_that_is_too_long(runnable: Build, run_folder: Path, flag: str) -> None:
    long = str(run_folder / ("a" * 300)) + (".jsonl" if flag == "prompt_data" else "")
    text = "\n".join(str(problem) for problem in preflight(runnable(**{flag: long})))
    assert long in text
    assert "File name too long" in text


def test_disk_and_shared_memory(runnable: Build, monkeypatch: pytest.MonkeyPatch, run_folder: Path) -> None:
    size = (run_folder / "hf" / "model.safetensors").stat().st_size
    usage = type(shutil.disk_usage("/"))
    monkeypatch.setattr(host.shutil, "disk_usage", lambda path: usage(0, 0, 6 * size))
    (problem,) = preflight(runnable(save_interval=1), None, ["host"])
    assert problem.severity == "warning"
    assert "4 checkpoints take about" in problem.message
    assert "--save-interval of at least 4" in problem.hint
    monkeypatch.setattr(host.shutil, "disk_usage", lambda path: usage(0, 0, 100))
    memory, disk = preflight(runnable(), None, ["host"])
    assert "/dev/shm has 100 B free" in memory.message
    assert "100 B free, one checkpoint takes about" in disk.message


def test_check_prints_and_exits(runnable: Build, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = as_arguments(runnable())
    assert check(words) == 0
    assert "cfg, hf, data, host: 0 errors, 0 warnings" in capsys.readouterr().out
    (run_folder / "train.jsonl").unlink()
    assert check([*words, "--level", "hf"]) == 0
    assert check([*words, "--level", "data", "hf", "--json"]) == 1
    out = capsys.readouterr().out
    found = json.loads(out[out.index("{") :])
    assert [item["level"] for item in found["problems"]] == ["data"]
    assert check([*words, "--no-such-flag"]) == 2
    assert check([*words, "--level", "all"]) == 2
    assert check(["--help"]) == 0


def test_check_compares_with_the_recipe(runnable: Build, capsys: pytest.CaptureFixture[str]) -> None:
    words = as_arguments(runnable(recipe="tiny"))
    asked: list[str] = []

    def dimensions_of(recipe: str) -> dict[str, object]:
        asked.append(recipe)
        return {**QWEN3_DIMENSIONS, "layers": 3}

    assert check(words, dimensions_of) == 1
    assert asked == ["tiny"]
    assert "layers 2, the recipe's model file says 3" in capsys.readouterr().err


def test_check_as_a_subcommand_keeps_its_words() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["check", "--rollout-top-k", "-1", "--help", "-h", "x"])
    assert args.words == ["--rollout-top-k", "-1", "--help", "-h", "x"]
