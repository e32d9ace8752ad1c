"""The worked examples, through the whole loop: their own scripts, the real engine and trainer, two rounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .tiny_run import ENVIRONMENT, RUN_SECONDS, Experiment, slime

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def run_example(name: str, folder: Path, save: Path, *words: str) -> list[dict[str, float]]:
    """Run the example's script from the repository's root; returns its metrics."""
    metrics = save / "metrics.jsonl"
    done = subprocess.run(
        ["bash", f"examples/{name}/run.sh", str(folder), "--num-rollout", "2", "--lr-warmup-iters", "0",
         "--eval-interval", "2", "--metrics-file", str(metrics), *words],
        cwd=ROOT,
        env={**ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def test_a_reward_of_ones_own(experiment: Experiment, tmp_path: Path) -> None:
    """Rewards between 0 and 1 train, faults are counted, and a second run samples the same tokens."""
    few = f"{experiment.root / 'data' / 'heldout.jsonl'}@[0:40]"
    words = ("--rollout-batch-size", "8", "--eval-prompt-data", "sums", few)
    records = run_example("custom_reward", experiment.root, tmp_path / "one", *words)
    rounds = [record for record in records if "rollout/raw_reward" in record]
    assert len(rounds) == 2
    for record in rounds:
        shares = [record.get(f"rollout/error_cat/{kind}", 0.0) for kind in ("none", "close", "wrong", "format")]
        assert sum(shares) == pytest.approx(1)
        assert shares[0] < record["rollout/raw_reward"] < shares[0] + 0.5 * shares[1] + 1e-9
        assert record["train/train_rollout_logprob_abs_diff_max"] < 1e-4
    assert [record["round"] for record in records if "eval/sums" in record] == [-1, 1]
    again = run_example("custom_reward", experiment.root, tmp_path / "two", *words)
    for name in ("rollout/raw_reward", "rollout/response_len/mean", "rollout/error_cat/close"):
        assert [one.get(name) for one in again] == [one.get(name) for one in records]


def test_an_agent_with_a_tool(tmp_path: Path) -> None:
    """The engine's tokens of both turns score in the trainer as in the engine; what the tool said does not train."""
    folder = tmp_path / "tools"
    made = subprocess.run(
        [sys.executable, "examples/multi_turn_tools/prepare.py", str(folder)],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    done = slime(
        "convert", "hf-to-megatron", "--hf-checkpoint", str(folder / "hf"), "--save", str(folder / "torch_dist")
    )
    assert done.returncode == 0, done.stderr
    rounds = [
        record
        for record in run_example("multi_turn_tools", folder, tmp_path, "--rollout-batch-size", "8")
        if "rollout/raw_reward" in record
    ]
    assert len(rounds) == 2
    for record in rounds:
        assert 0.1 < record["rollout/raw_reward"] < 1
        assert record["multi_turn/multi_turn_metric/round_number_max"] >= 2
        own = record["multi_turn/wo_obs_response_length/response_length_mean"]
        assert record["multi_turn/raw_response_length/response_length_mean"] > own + 2
        assert record["rollout/response_len/mean"] == own
        assert record["train/train_rollout_logprob_abs_diff_max"] < 1e-4
