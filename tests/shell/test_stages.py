"""The four stages, run for real with stubs in place of the programs that need a network, a GPU or a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Bench

TRACKER = "latest_checkpointed_iteration.txt"
NOBODY = "http://127.0.0.1:9"  # the discard port: nothing answers there


def ready(bench: Bench, **choices: Any) -> None:
    """The tiny experiment, prepared and converted."""
    bench.make(model="tiny", **choices)
    assert bench.run("prepare").returncode == 0
    assert bench.run("convert").returncode == 0
    bench.calls()


# --- usage comes before anything else


@pytest.mark.parametrize(
    "words", [(), ("trian",), ("prepare", "--fast"), ("check", "x"), ("train", "x", "--load"), ("",)]
)
def test_a_wrong_stage_is_usage_and_exit_2(
    bench: Bench, words: tuple[str, ...], without: Callable[[str], None]
) -> None:
    bench.make()
    for name in ("python", "ray", "hf", "torchrun"):
        without(name)
    result = bench.run(*words)
    assert result.returncode == 2
    assert "prepare | convert [FLAG...] | check [FLAG...] | train [FLAG...]" in result.stderr
    assert bench.calls() == []


@pytest.mark.parametrize("word", ["-h", "--help", "help"])
def test_help_is_exit_0_on_stdout(bench: Bench, word: str) -> None:
    bench.make()
    result = bench.run(word)
    assert result.returncode == 0
    assert "usage: bash experiment.sh" in result.stdout


# --- prepare


def test_prepare_makes_the_tiny_material_under_one_folder(bench: Bench) -> None:
    bench.make(model="tiny")
    assert bench.run("prepare").returncode == 0
    root = str(bench.folder / "slime-tiny")
    assert bench.calls() == [["python", "-m", "slime", "tiny", "--output", root, "--seed", "0"]]
    assert bench.run("prepare", SLIME_TINY_SEED="2").returncode == 0
    assert bench.calls()[0][-1] == "2"


def test_prepare_explains_tiny_paths_that_do_not_belong_together(bench: Bench) -> None:
    bench.make(model="tiny", data="/elsewhere/train.jsonl")
    result = bench.run("prepare")
    assert result.returncode == 1
    assert "/elsewhere/train.jsonl" in result.stderr
    assert bench.calls() == []


def test_prepare_downloads_weights_and_prompts_once(bench: Bench) -> None:
    bench.make(hf="models/flash", data="prompts/dapo-math-17k.jsonl")
    assert bench.run("prepare").returncode == 0
    weights, prompts = str(bench.folder / "models/flash"), str(bench.folder / "prompts")
    assert bench.calls() == [
        ["hf", "download", "zai-org/GLM-4.7-Flash", "--local-dir", weights],
        ["hf", "download", "zhuzilin/dapo-math-17k", "--local-dir", prompts, "--repo-type", "dataset"],
    ]
    assert bench.run("prepare").returncode == 0
    assert bench.calls() == []


def test_a_broken_download_is_not_taken_for_a_whole_one(bench: Bench) -> None:
    bench.make(hf="models/flash", data="prompts/dapo-math-17k.jsonl")
    assert bench.run("prepare", STUB_FAIL="GLM-4.7-Flash").returncode == 7
    assert (bench.folder / "models/flash/half-written").exists()
    assert len(bench.calls()) == 1
    assert bench.run("prepare").returncode == 0
    assert [call[2] for call in bench.calls()] == ["zai-org/GLM-4.7-Flash", "zhuzilin/dapo-math-17k"]


def test_a_broken_quantisation_leaves_no_folder_of_that_name(bench: Bench) -> None:
    bench.make(model="glm-5.3", hf="m", data="p/dapo-math-17k.jsonl")
    assert bench.run("prepare", STUB_FAIL="hf-to-fp8").returncode == 7
    assert [call[:4] for call in bench.calls()] == [
        ["hf", "download", "zai-org/GLM-5.3", "--local-dir"],
        ["python", "-m", "slime", "convert"],
        ["python", "-m", "slime", "convert"],
    ]
    assert not (bench.folder / "m-fp8").exists()
    assert (bench.folder / "m/config.json").exists()

    assert bench.run("prepare").returncode == 0
    first, second = bench.calls()
    assert first[3:5] == ["convert", "hf-to-fp8"]
    assert first[first.index("--block-size") + 1 :] == ["128", "128"]
    assert second[:3] == ["hf", "download", "zhuzilin/dapo-math-17k"]
    assert (bench.folder / "m-fp8/config.json").exists()
    assert not (bench.folder / "m-fp8/half-written").exists()
    assert not (bench.folder / "m-fp8.partial").exists()


def test_a_folder_that_prepare_did_not_finish_is_not_overwritten(bench: Bench) -> None:
    bench.make(precision="fp8", hf="m", data="p/dapo-math-17k.jsonl")
    own = bench.folder / "m-fp8/config.json"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    result = bench.run("prepare")
    assert result.returncode == 1
    assert "m-fp8 exists" in result.stderr
    assert own.read_text() == "mine"


def test_a_data_set_without_the_named_file_is_explained(bench: Bench) -> None:
    bench.make(hf="m", data="p/other.jsonl")
    result = bench.run("prepare")
    assert result.returncode == 1
    assert "which has no other.jsonl" in result.stderr


def test_a_custom_task_downloads_no_data_set(bench: Bench) -> None:
    bench.make(task="custom", generate="a.b", reward="c.d", hf="m", data="p/mine.jsonl")
    result = bench.run("prepare")
    assert result.returncode == 0
    assert len(bench.calls()) == 1
    assert "p/mine.jsonl" in result.stderr


def test_prepare_names_a_missing_program(bench: Bench, without: Callable[[str], None]) -> None:
    bench.make(hf="m", data="p/x.jsonl")
    without("hf")
    result = bench.run("prepare")
    assert result.returncode == 1
    assert "hf is not on PATH" in result.stderr


# --- convert


def test_convert_without_weights_names_the_stage_before(bench: Bench) -> None:
    bench.make(model="tiny")
    result = bench.run("convert")
    assert result.returncode == 1
    assert "prepare first" in result.stderr
    assert bench.calls() == []


def test_convert_of_tiny_leaves_the_decision_to_the_converter(bench: Bench) -> None:
    bench.make(model="tiny")
    bench.run("prepare")
    bench.calls()
    assert bench.run("convert").returncode == 0
    root = bench.folder / "slime-tiny"
    assert bench.calls() == [
        [
            *("python", "-m", "slime", "convert", "hf-to-megatron", "--hf-checkpoint", str(root / "hf")),
            *("--save", str(root / "torch_dist"), "--device", "cpu"),
        ]
    ]
    # `slime convert` compares the weights with those it converted; a tracker file alone says nothing of them.
    assert bench.run("convert", "--force").returncode == 0
    (call,) = bench.calls()
    assert call[-2:] == ["cpu", "--force"]
    assert bench.run("convert", STUB_FAIL="hf-to-megatron").returncode == 7


def test_convert_on_gpus_runs_once(bench: Bench) -> None:
    bench.make(hf="m", train="t", data="p/dapo-math-17k.jsonl")
    bench.run("prepare")
    bench.calls()
    assert bench.run("convert").returncode == 0
    assert [call[0] for call in bench.calls()] == ["torchrun"]
    result = bench.run("convert")
    assert result.returncode == 0
    assert "already converted" in result.stderr
    assert bench.calls() == []


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "CONVERT_MASTER_ADDR is not set"),
        ({"CONVERT_MASTER_ADDR": "10.0.0.1"}, "must be 0 to 3"),
        ({"CONVERT_MASTER_ADDR": "10.0.0.1", "CONVERT_NODE_RANK": "4"}, "must be 0 to 3"),
        ({"CONVERT_MASTER_ADDR": "10.0.0.1", "CONVERT_NODE_RANK": "1 "}, "must be 0 to 3"),
    ],
)
def test_conversion_on_four_nodes_asks_for_address_and_rank(bench: Bench, variables: dict[str, str], says: str) -> None:
    bench.make(model="glm-4.7", hf="m", train="t")
    result = bench.run("convert", **variables)
    assert result.returncode == 1
    assert says in result.stderr
    assert bench.calls() == []


def test_conversion_on_four_nodes_starts_torchrun(bench: Bench) -> None:
    bench.make(model="glm-4.7", hf="m", train="t", data="p/dapo-math-17k.jsonl")
    bench.run("prepare")
    bench.calls()
    assert bench.run("convert", CONVERT_MASTER_ADDR="10.0.0.1", CONVERT_NODE_RANK="3").returncode == 0
    (call,) = bench.calls()
    assert call[:13] == [
        *("torchrun", "--nproc-per-node", "8", "--nnodes", "4", "--node-rank", "3", "--master-addr", "10.0.0.1"),
        *("--master-port", "12345", "-m", "slime"),
    ]
    assert call[13:15] == ["convert", "hf-to-megatron"]
    assert call[call.index("--expert-model-parallel-size") + 1] == "8"


# --- check


def test_check_names_everything_that_is_missing(bench: Bench, without: Callable[[str], None]) -> None:
    bench.make(hf="m", train="t", data="d.jsonl", megatron="/nowhere/Megatron-LM", precision="fp8")
    for name in ("ray", "hf", "torchrun"):
        without(name)
    result = bench.run("check")
    assert result.returncode == 1
    for text in ("ray is not on PATH", "hf is not on PATH", "torchrun is not on PATH", "/m-fp8/config.json"):
        assert text in result.stderr
    for text in (f"/t/{TRACKER}", "/d.jsonl", "/nowhere/Megatron-LM", "7 missing"):
        assert text in result.stderr
    assert bench.calls() == []


def test_check_names_a_python_without_slime(bench: Bench) -> None:
    bench.make(model="tiny")
    result = bench.run("check", STUB_BARE="1")
    assert result.returncode == 1
    assert "cannot import slime" in result.stderr
    result = bench.run("prepare", STUB_BARE="1")
    assert result.returncode == 1
    assert "cannot import slime" in result.stderr
    assert bench.calls() == []


def test_check_names_hooks_that_do_not_import(bench: Bench) -> None:
    ready(bench, task="custom", generate="no_such_agent.generate", reward="json.dumps")
    result = bench.run("check")
    assert result.returncode == 1
    assert "generation hook 'no_such_agent.generate' cannot be imported" in result.stderr
    assert "reward hook" not in result.stderr


def test_check_names_straw_and_shared_folders(bench: Bench) -> None:
    bench.make(
        layout="separate", transport="disk", shared="/nowhere/weights", straw=True,
        queueDir="/nowhere/queue", queueRun="r", declaration="/nowhere/declaration.json",
    )  # fmt: skip
    result = bench.run("check")
    assert result.returncode == 1
    for text in ("/nowhere/weights", "/nowhere/queue", "/nowhere/declaration.json"):
        assert text in result.stderr


def test_check_names_an_output_that_cannot_be_made(bench: Bench) -> None:
    ready(bench, save="slime-tiny/data/train.jsonl/run")
    result = bench.run("check")
    assert result.returncode == 1
    assert "train.jsonl is not a writable folder" in result.stderr


def test_check_asks_preflight_and_launcher_with_the_flags_of_train(bench: Bench) -> None:
    ready(bench)
    result = bench.run("check", "--load", "a b")
    assert result.returncode == 0, result.stderr
    preflight, launcher = bench.calls()
    assert preflight[:4] == ["python", "-m", "slime", "check"]
    assert preflight[-2:] == ["--load", "a b"]
    assert launcher == ["python", "-m", "slime", "train", *preflight[4:], "--dry-run"]
    assert "nothing answers" not in result.stderr
    assert "exists; a new experiment" not in result.stderr


def test_check_notes_that_ray_is_not_there(bench: Bench) -> None:
    ready(bench)
    result = bench.run("check", RAY_DASHBOARD=NOBODY)
    assert result.returncode == 0
    assert f"nothing answers at {NOBODY}" in result.stderr


def test_check_fails_when_preflight_or_launcher_refuses(bench: Bench) -> None:
    ready(bench)
    result = bench.run("check", "--num-rollout", "666", STUB_FAIL="666")
    assert result.returncode == 1
    assert "slime check refuses this run" in result.stderr
    assert len(bench.calls()) == 1
    result = bench.run("check", STUB_FAIL="--dry-run")
    assert result.returncode == 1
    assert "the launcher refuses these flags" in result.stderr


TINY_CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 384, "vocab_size": 32,
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("hf/config.json", '{"broken"', "hf/config.json: not JSON"),
        ("hf/config.json", json.dumps({**TINY_CONFIG, "num_hidden_layers": 3}), "hf/config.json has layers"),
        ("data/train.jsonl", '{"prompt": "1+1="}\n', "'label'"),
        ("data/train.jsonl", "", "data/train.jsonl"),
    ],
)
def test_check_names_inputs_that_are_there_but_broken(bench: Bench, file: str, content: str, says: str) -> None:
    """With the real `slime check` behind the stage."""
    ready(bench)
    stub = bench.bin / "python"
    stub.unlink()
    stub.write_text(f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    stub.chmod(0o755)
    root = bench.folder / "slime-tiny"
    (root / "hf/config.json").write_text(json.dumps(TINY_CONFIG))
    for name in ("train", "heldout"):
        (root / f"data/{name}.jsonl").write_text('{"prompt": "1+1=", "label": "2"}\n')
    (root / file).write_text(content)
    result = bench.run("check")
    assert result.returncode == 1
    assert says in result.stderr
    assert "every input is there" not in result.stderr


@pytest.mark.parametrize("rows", ["@[0:100]", "@[-5:]", "@[:]"])
def test_prompt_data_may_name_rows_of_its_file(bench: Bench, rows: str) -> None:
    ready(bench, data=f"slime-tiny/data/train.jsonl{rows}")
    result = bench.run("check")
    assert result.returncode == 0, result.stderr
    _, launcher = bench.calls()
    data = bench.folder / "slime-tiny/data"
    assert launcher[launcher.index("--prompt-data") + 1] == f"{data}/train.jsonl{rows}"
    assert launcher[launcher.index("heldout") + 1] == f"{data}/heldout.jsonl"
    (data / "train.jsonl").unlink()
    result = bench.run("check")
    assert result.returncode == 1
    assert f"prompts: {data}/train.jsonl (made by" in result.stderr


def test_check_notes_a_reused_output_folder(bench: Bench) -> None:
    ready(bench)
    (bench.folder / "slime-tiny/run").mkdir()
    result = bench.run("check")
    assert result.returncode == 0
    assert "slime-tiny/run exists" in result.stderr


# --- train


def job(bench: Bench) -> tuple[list[str], list[str], Path]:
    """The submission, the trainer's argument vector, and the run folder."""
    preflight, dry_run, submission, trainer = bench.calls()
    assert (preflight[3], dry_run[-1]) == ("check", "--dry-run")
    return submission, trainer, Path(submission[submission.index("--runtime-env") + 1]).parent


def test_train_submits_one_job_and_its_folder_stays(bench: Bench) -> None:
    ready(bench)
    assert bench.run("train").returncode == 0
    submission, trainer, folder = job(bench)
    assert submission[:5] == ["ray", "job", "submit", "--address", bench.dashboard]
    assert trainer[:4] == ["python", "-m", "slime", "train"]
    assert trainer[trainer.index("--save") + 1] == str(bench.folder / "slime-tiny/run")
    assert folder.parent == bench.folder / ".slime-lab"
    assert {path.name for path in folder.iterdir()} == {"runtime-env.json", "train.sh"}
    variables = json.loads((folder / "runtime-env.json").read_text())["env_vars"]
    assert variables["PYTHONPATH"] == str(bench.folder)
    assert variables["OMP_NUM_THREADS"] == "1"
    assert variables["no_proxy"].startswith("127.0.0.1,localhost")
    assert submission[submission.index("--submission-id") + 1] == f"slime-{folder.name}"


def test_train_passes_further_flags_on(bench: Bench) -> None:
    ready(bench)
    assert bench.run("train", "--load", "a b $(touch PWNED)", "--num-rollout", "5").returncode == 0
    _, trainer, _ = job(bench)
    assert trainer[-4:] == ["--load", "a b $(touch PWNED)", "--num-rollout", "5"]


def test_the_job_starts_in_the_repository(bench: Bench) -> None:
    ready(bench)
    bench.run("train")
    _, _, folder = job(bench)
    assert f"\ncd -- {bench.folder}\n" in (folder / "train.sh").read_text()


def test_the_status_of_the_job_is_the_status_of_train(bench: Bench) -> None:
    ready(bench)
    assert bench.run("train", STUB_FAIL="submit").returncode == 7
    assert bench.run("train", "--num-rollout", "666", STUB_FAIL="submission").returncode == 7


def test_train_does_not_submit_what_check_refuses(bench: Bench) -> None:
    bench.make(model="tiny")
    assert bench.run("train").returncode == 1
    assert bench.calls() == []


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"])
def test_ray_dashboard_decides_alone_where_the_job_goes(bench: Bench, name: str) -> None:
    ready(bench)
    dashboard = bench.dashboard.replace("127.0.0.1", "localhost")
    assert bench.run("train", RAY_DASHBOARD=dashboard, **{name: "http://elsewhere:8265"}).returncode == 0
    submission, _, _ = job(bench)
    assert submission[4] == dashboard


@pytest.mark.parametrize(("variables", "mode"), [({}, "token"), ({"RAY_AUTH_MODE": "disabled"}, "disabled")])
def test_train_without_ray_says_how_to_start_it(bench: Bench, variables: dict[str, str], mode: str) -> None:
    ready(bench)
    result = bench.run("train", RAY_DASHBOARD=NOBODY, **variables)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"experiment.sh: nothing answers at {NOBODY}")
    assert f"RAY_AUTH_MODE={mode} ray start --head" in last
    assert [call[0] for call in bench.calls()] == ["python", "python"]


def test_the_pd_configuration_stands_in_the_run_folder(bench: Bench) -> None:
    (bench.folder / "Megatron-LM").mkdir()
    bench.make(
        pd=True, ib="mlx5_0", layout="separate", rollout=16, hf="m", train="t", save="s",
        data="p/dapo-math-17k.jsonl", megatron="Megatron-LM",
    )  # fmt: skip
    assert bench.run("prepare").returncode == 0
    assert bench.run("convert").returncode == 0
    bench.calls()
    assert bench.run("train").returncode == 0
    _, trainer, folder = job(bench)
    assert trainer[trainer.index("--sglang-config") + 1] == str(folder / "sglang.yaml")
    state = bench.catalog.sanitise({"pd": True, "ib": "mlx5_0", "layout": "separate", "rollout": 16}).state
    assert (folder / "sglang.yaml").read_text() == bench.catalog.artifacts(state, None)["sglang.yaml"]
    variables = json.loads((folder / "runtime-env.json").read_text())["env_vars"]
    assert variables["PYTHONPATH"] == f"{bench.folder}:{bench.folder / 'Megatron-LM'}"


@pytest.mark.parametrize(
    "name", ["it's", "$HOME", "a;b", "[x]", "back\\slash", "`x`", "a&b", "#x", "a:b", "a\nb", "a\tb"]
)
def test_a_repository_whose_path_a_shell_would_read_is_refused(bench: Bench, name: str) -> None:
    bench.folder = bench.folder / name
    bench.folder.mkdir()
    bench.make(model="tiny")
    result = bench.run("train")
    assert result.returncode == 1
    assert "move it to a path without" in result.stderr
    assert bench.calls() == []


@pytest.mark.parametrize("ray", [{}, {"STUB_OLD_RAY": "1"}])
@pytest.mark.parametrize("name", ["my repository", "仓库", "a-b_c.d@e+f,g=h%j"])
def test_other_paths_of_the_repository_work_with_every_ray(bench: Bench, name: str, ray: dict[str, str]) -> None:
    bench.folder = bench.folder / name
    bench.folder.mkdir()
    ready(bench)
    result = bench.run("train", "--load", "$(touch PWNED)", **ray)
    assert result.returncode == 0, result.stderr
    _, trainer, _ = job(bench)
    assert trainer[trainer.index("--save") + 1] == str(bench.folder / "slime-tiny/run")
    assert trainer[-1] == "$(touch PWNED)"
    assert not list(bench.folder.rglob("PWNED*"))


def test_the_environment_of_the_repository_comes_first(bench: Bench) -> None:
    bench.make(model="tiny")
    own = bench.folder / ".venv/bin"
    own.mkdir(parents=True)
    (bench.bin / "python").rename(own / "python")
    assert bench.run("prepare").returncode == 0
    assert len(bench.calls()) == 1


# --- serving-reference.sh


def test_the_reference_asks_for_a_role_and_an_address(bench: Bench) -> None:
    bench.make(
        "serving-reference.sh", model="glm-4-9b", layout="external", transport="disk", shared=str(bench.folder),
        endpoints="a:1", pd=True, ib="mlx5_0", hicache=True, hf="/m/it's",
    )  # fmt: skip
    assert bench.bash("serving-reference.sh", "prefill").returncode != 0
    assert bench.bash("serving-reference.sh", HOST="h", PORT="1").returncode == 2
