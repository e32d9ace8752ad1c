"""The dry run of every launch recipe, through the shell that the lab makes for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Prints the arguments that the shell would give to the trainer, each ended by a NUL.
ARGUMENTS = "make_run_dir dry-run\nprintf '%s\\0' \"${ARGUMENTS[@]}\"\n"

# By hand from the recipes' placement: nodes, GPUs, DP = GPUs / (TP x PP x CP), engines.
EXPECTED = {
    "tiny": (1, 1, 1, 1),
    "glm-4-9b": (1, 8, 8 // (2 * 1 * 2), 4),
    "glm-4.7-flash": (1, 8, 8 // (2 * 2 * 2), 1),
    "glm-4.7": (8, 64, 64 // (8 * 4 * 2), 2),
    "qwen3.8-27b": (4, 32, 32 // (4 * 2 * 4), 16),
    "deepseek-r1": (16, 128, 128 // (8 * 4 * 4), 2),
    "glm-5.3": (32, 256, 256 // (4 * 8 * 8), 4),
}

# No module of a framework may be loaded for this, and no GPU is looked for.
DRY_RUN = """
import sys
from slime.cli import main

status = main(["train", *sys.argv[1:]])
heavy = {"torch", "ray", "megatron", "sglang", "transformers"} & set(sys.modules)
sys.exit(f"imported {sorted(heavy)}" if heavy else status)
"""


def shell_arguments(folder: Path, **choices: Any) -> list[str]:
    """The trainer's argument vector, as bash builds it from the rendered shell."""
    (folder / "experiment.yaml").write_text(json.dumps(choices), encoding="utf-8")
    render = [sys.executable, "-m", "slime", "lab", "render", "experiment.yaml", "-o", str(folder)]
    subprocess.run(render, cwd=folder, check=True, capture_output=True, text=True)
    text = (folder / "experiment.sh").read_text(encoding="utf-8")
    (folder / "arguments.sh").write_text(text.removesuffix('main "$@"\n') + ARGUMENTS, encoding="utf-8")
    done = subprocess.run(["bash", "arguments.sh"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


def dry_run(folder: Path, words: list[str]) -> tuple[int, str, str, dict[str, Any]]:
    """Exit status, standard output and error, and the JSON of a dry run."""
    command = [sys.executable, "-c", DRY_RUN, *words, "--dry-run", "--dry-run-json", str(folder / "dry-run.json")]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr
    document: dict[str, Any] = json.loads((folder / "dry-run.json").read_text(encoding="utf-8"))
    return done.returncode, done.stdout, done.stderr, document


@pytest.mark.parametrize("recipe", EXPECTED)
def test_the_layout_of_every_recipe(tmp_path: Path, recipe: str) -> None:
    nodes, gpus, copies, engines = EXPECTED[recipe]
    status, out, err, document = dry_run(tmp_path, shell_arguments(tmp_path, model=recipe))
    numbers, devices = document["derived"], document["devices"]
    assert (numbers["nodes"], numbers["total_gpus"], numbers["data_parallel_size"]) == (nodes, gpus, copies)
    assert numbers["engines"] == engines
    assert numbers["dropped_samples_per_rollout"] == 0
    assert [item["train_rank"] for item in devices] == list(range(gpus))
    assert {item["engine"] for item in devices} == set(range(engines))
    assert max(item["data_rank"] for item in devices) == copies - 1
    settings = document["configuration"]
    assert settings["--recipe"] == {"value": recipe, "origin": f"command line, as in recipe {recipe}"}
    assert settings["--lr"]["origin"] == f"command line, as in recipe {recipe}"
    assert settings["--hf-checkpoint"]["origin"] == "command line"
    assert settings["--rollout-max-context-len"]["origin"] in ("default", "derived")
    if document["planned"]:
        assert status == 2
        assert f"not run yet: {len(document['planned'])} settings" in out
        assert f"{len(document['planned'])} of these settings are not run yet" in err
    else:
        assert (status, err) == (0, "")


def test_the_smallest_recipe_runs_as_a_whole_and_a_change_of_it_is_no_longer_the_recipes(tmp_path: Path) -> None:
    words = shell_arguments(tmp_path, model="tiny")
    document = dry_run(tmp_path, [*words, "--num-rollout", "7"])[3]
    assert document["planned"] == []
    assert document["configuration"]["--num-rollout"] == {"value": 7, "origin": "command line"}


def test_prefill_and_decode_come_from_the_file_that_the_shell_writes(tmp_path: Path) -> None:
    words = shell_arguments(tmp_path, model="glm-4.7-flash", layout="separate", rollout=16, pd=True, ib="mlx5_0,mlx5_1")
    document = dry_run(tmp_path, words)[3]
    kinds = [item["engine_kind"] for item in document["devices"]]
    assert kinds == [None] * 8 + ["prefill"] * 8 + ["decode"] * 8
    assert document["derived"]["nodes"] == 3
