"""A run from a queue with the real engine, the real trainer and Ray: what it trains on, how old that is, and what a
checkpoint in the middle leaves out.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slime.config.import_paths import FULLY_ASYNC

from .test_failures import wait_until_nothing_is_left
from .test_serving_runs import kill
from .tiny_run import ENVIRONMENT, RUN_SECONDS, Experiment, slime

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

ROUNDS = 6
# Notes the samples of each round, as they are handed to training.
HOOK = """\
import json, os

def note(rollout_id, args, samples, metrics, seconds):
    if len(samples) < 64:  # it is tried on a few made-up ones before the run
        return False
    rows = [[s.index, s.weight_versions, s.response_length, len(s.rollout_log_probs)] for s in samples]
    with open(os.environ["SAMPLES_FILE"], "a") as file:
        print(json.dumps([rollout_id, rows]), file=file)
    return False
"""
ASYNC = {
    "colocate": None,
    "rollout_num_gpus": 1,
    "rollout_function_path": FULLY_ASYNC,
    "max_weight_staleness": 1,
    "partial_rollout": True,
    "use_tis": True,
    "rollout_max_response_len": 24,
    "custom_rollout_log_function_path": "fully_async_hook.note",
    "num_rollout": ROUNDS,
}


def start(experiment: Experiment, folder: Path, **changes: object) -> subprocess.Popen[str]:
    (folder / "fully_async_hook.py").write_text(HOOK)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "slime", *experiment.words(folder / "run", **{**ASYNC, **changes})],
        env={**ENVIRONMENT, "SAMPLES_FILE": str(folder / "samples.jsonl"), "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=RUN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def trained(folder: Path) -> list[tuple[int, list[list[Any]]]]:
    """(round, its samples: number, weight versions, tokens, log-probs), in the order of training."""
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def records(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def test_a_run_killed_between_rounds_resumes_and_trains_every_sample_once(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    """Killed once round 4 has begun, after the save of round 3; what was saved of the queue is trained afterwards."""
    evaluation = {"eval_interval": 3, "eval_prompt_data": f"sums {experiment.root}/data/heldout.jsonl@[0:16]"}
    process = start(experiment, tmp_path, save_interval=2, **evaluation)
    while process.poll() is None and not (tmp_path / "run" / "latest_checkpointed_iteration.txt").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output = end(process)
    assert "every process of the run has ended" in output, output
    wait_until_nothing_is_left(nothing_left)
    saved = int((tmp_path / "run" / "latest_checkpointed_iteration.txt").read_text())
    before = [(number, rows) for number, rows in trained(tmp_path) if number <= saved]
    (tmp_path / "samples.jsonl").unlink()

    process = start(experiment, tmp_path, **evaluation)
    output = end(process)
    assert process.returncode == 0, output
    rounds = [*before, *trained(tmp_path)]
    assert [number for number, _ in rounds] == list(range(ROUNDS))
    indices = [row[0] for _, rows in rounds for row in rows]
    assert len(indices) == len(set(indices)) == 64 * ROUNDS
    assert set(indices) == set(range(64 * ROUNDS)), "no prompt is left out, and none is taken beyond the run"
    for number, rows in rounds:
        for _, versions, length, log_probs in rows:
            assert log_probs == length
            held = [int(version) for version in versions]
            assert held == sorted(set(held)) and number <= held[0] and held[-1] <= number + 1, "at most one update old"
    # The round that was saved is killed before it is reported.
    check_metrics([record for record in records(tmp_path) if "rollout/raw_reward" in record], without=saved)
    assert [record["round"] for record in records(tmp_path) if "eval/sums" in record][-1] == ROUNDS - 1
    wait_until_nothing_is_left(nothing_left)


def check_metrics(rounds: list[dict[str, float]], without: int) -> None:
    assert {record["round"] for record in rounds} | {without} == set(range(ROUNDS))
    for record in rounds:
        assert 0 <= record["staleness/mean"] <= record["staleness/max"] <= 1
        assert record["staleness/dropped_groups"] == 0
        assert 0 < record["rollout/raw_reward"] < 1
        assert record["rollout/queue_length"] + record["rollout/in_flight"] <= 16
        assert 0 <= record["perf/wait_time_ratio"] < 1
        gap = record["train/train_rollout_logprob_abs_diff"]
        # With the same weights trainer and engine compute the same; older samples differ by an update.
        assert gap < 1e-5 if record["staleness/max"] == 0 else gap > 1e-5
    assert any(record["staleness/max"] == 1 for record in rounds), "generation went on beside training"


def test_the_command_of_the_page_runs(experiment: Experiment, tmp_path: Path) -> None:
    """In a folder where `slime-tiny` is what the quick start makes; with fewer rounds."""
    page = (Path(__file__).parents[2] / "docs/en/examples/fully_async.md").read_text(encoding="utf-8")
    command = page.partition("\n```bash\n")[2].partition("\n```")[0]
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["slime", "train"]
    (tmp_path / "slime-tiny").mkdir()
    for name in ("hf", "torch_dist", "data"):
        (tmp_path / "slime-tiny" / name).symlink_to(experiment.root / name)
    done = slime(*words[1:], "--num-rollout", "3", "--lr-warmup-iters", "0", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "slime-tiny/fully-async/metrics.jsonl").read_text().splitlines()
    rounds = [record for record in map(json.loads, lines) if "rollout/raw_reward" in record]
    assert [record["round"] for record in rounds] == [0, 1, 2]
    assert all(0 <= record["staleness/max"] <= 1 for record in rounds)


def test_a_killed_engine_ends_the_run_with_its_reason(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    process = start(experiment, tmp_path, num_rollout=200, save_interval=None)
    while process.poll() is None and not (tmp_path / "samples.jsonl").exists():
        time.sleep(0.01)
    kill(tmp_path / "run" / "logs" / "engine-0.log")
    output = end(process)
    assert process.returncode == 1, output
    assert "was killed by signal 9; the end of its log" in output
    wait_until_nothing_is_left(nothing_left)
