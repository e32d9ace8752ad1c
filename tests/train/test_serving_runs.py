"""Runs with engines of several kinds: groups of a file behind a router, engines that die, engines of somebody else.

Every run is the tiny experiment with real engines. What is asked of each: it trains on every sample once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slime.sglang.engine import EngineProcess
from slime.sglang.launch import EngineSpec

from .test_failures import wait_until_nothing_is_left
from .tiny_run import ENVIRONMENT, Experiment

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

ROUNDS = 5
# A run with three or four starts of an engine, on two busy cores; a hang must not take the suite along.
RUN_SECONDS = 600
# Two groups of one engine each, and an argument for one group alone.
GROUPS = """\
sglang:
  - name: policy
    server_groups:
      - worker_type: regular
        num_gpus: 1
        overrides: {schedule_policy: lpm}
      - {worker_type: regular, num_gpus: 1}
"""
# A frozen model beside the trained one, which grades its samples.
JUDGED = """\
sglang:
  - name: policy
    server_groups:
      - {worker_type: regular, num_gpus: 1}
  - name: judge
    model_path: JUDGE
    server_groups:
      - {worker_type: regular, num_gpus: 1}
"""
# Notes which samples each round trains on, and says so before the round is over.
HOOKS = """\
import json, os

async def judged(args, sample):
    from slime.rollout.client import SamplingParams
    from slime.rollout.served import served_model

    asked = served_model("judge").generate(sample.tokens, SamplingParams(max_new_tokens=2), f"judge-{sample.index}")
    with open(os.environ["SAMPLES_FILE"] + ".judge", "a") as file:
        print((await asked).weight_version, file=file)
    return 1.0

def note(rollout_id, args, samples, metrics, seconds):
    if len(samples) < 64:  # it is tried on a few made-up ones before the run
        return False
    with open(os.environ["SAMPLES_FILE"], "a") as file:
        print(json.dumps([rollout_id, [sample.index for sample in samples]]), file=file)
    return False
"""


def samples_of(path: Path) -> dict[int, list[int]]:
    """Round -> the samples that it trained on; a round that stands there twice is a mistake."""
    found: dict[int, list[int]] = {}
    for line in path.read_text().splitlines():
        round_id, indices = json.loads(line)
        assert round_id not in found
        found[round_id] = indices
    return found


def environment(folder: Path) -> dict[str, str]:
    (folder / "serving_run_hooks.py").write_text(HOOKS)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**ENVIRONMENT, "SAMPLES_FILE": str(folder / "samples.jsonl"), "PYTHONPATH": path}


def start(experiment: Experiment, folder: Path, **changes: object) -> subprocess.Popen[str]:
    """Start a run that notes its samples."""
    hook = {"custom_rollout_log_function_path": "serving_run_hooks.note"}
    words = experiment.words(folder / "run", **{"num_rollout": ROUNDS, **hook, **changes})
    return subprocess.Popen(
        [sys.executable, "-m", "slime", *words],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """Wait for a run to end by itself, with every engine that it starts again; returns what it printed."""
    try:
        output, _ = process.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return output


def server(log: Path) -> int:
    """Process id of the server whose output goes to `log`; it stands in its guard's children."""
    for entry in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if entry.samefile(log):
                words = (entry.parent.parent / "cmdline").read_bytes().split(b"\0")
                if b"sglang.launch_server" in words and not any(word.endswith(b"guard.py") for word in words):
                    return int(entry.parent.parent.name)
        except OSError:
            continue
    raise LookupError(f"no server writes to {log}")


def when(process: subprocess.Popen[str], condition: Callable[[], object], act: Callable[[], None]) -> threading.Thread:
    """Do something as soon as a condition holds while a run goes on, beside what the test waits for."""

    def watch() -> None:
        while process.poll() is None:
            if condition():
                act()
                return
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def kill(log: Path) -> None:
    os.kill(server(log), signal.SIGKILL)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def every_sample_once(path: Path, rounds: int) -> None:
    """`rounds` rounds of 8 prompts x 8 samples, no sample in two of them."""
    found = samples_of(path)
    assert sorted(found) == list(range(rounds))
    assert all(len(indices) == 64 for indices in found.values())
    everything = [index for indices in found.values() for index in indices]
    assert len(set(everything)) == len(everything) == 64 * rounds


def test_engines_of_a_file_behind_a_router_die_twice_and_the_run_goes_on(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    """Once while they generate, once while they take weights."""
    (tmp_path / "sglang.yaml").write_text(GROUPS)
    weights, logs, samples = tmp_path / "weights", tmp_path / "run" / "logs", tmp_path / "samples.jsonl"
    process = start(
        experiment, tmp_path, rollout_num_gpus=2,
        sglang_config=tmp_path / "sglang.yaml", router_policy="manual", use_fault_tolerance=True,
        update_weight_transport="disk", update_weight_disk_dir=weights, rollout_max_response_len=48,
    )  # fmt: skip
    generating = when(
        process,
        lambda: lines(samples) == 1 and lines(tmp_path / "run" / "metrics.jsonl") == 1,
        lambda: kill(logs / "engine-1.log"),
    )
    updating = when(
        process,
        lambda: lines(samples) == 3 and (weights / "weight_v000004").exists(),
        lambda: kill(logs / "engine-0.log"),
    )
    output = end(process)
    generating.join()
    updating.join()
    assert process.returncode == 0, output
    every_sample_once(samples, ROUNDS)
    for number in (0, 1):
        assert f"engine {number}: the SGLang server at http://127.0.0.1:" in output
        assert f"engine {number} runs again" in output
    assert output.count("was killed by signal 9") >= 2
    assert "'schedule_policy': 'lpm'" in (logs / "engine-0.log").read_text()
    assert "'schedule_policy': 'lpm'" not in (logs / "engine-1.log").read_text()
    wait_until_nothing_is_left(nothing_left)


def test_an_engine_that_dies_during_an_update_ends_the_run_which_then_resumes(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    """What was trained before is in the checkpoint and is not generated again. The rest is graded by a frozen model."""
    weights, samples = tmp_path / "weights", tmp_path / "samples.jsonl"
    disk = {"update_weight_transport": "disk", "update_weight_disk_dir": weights, "save_interval": 1}
    process = start(experiment, tmp_path, **disk)
    killing = when(
        process,
        lambda: lines(samples) == 2 and (weights / "weight_v000003").exists(),
        lambda: kill(tmp_path / "run" / "logs" / "engine-0.log"),
    )
    output = end(process)
    killing.join()
    assert process.returncode == 1, output
    assert "was killed by signal 9" in output and "engine-0.log" in output
    assert "The version stays 2" in output
    wait_until_nothing_is_left(nothing_left)
    shutil.copytree(experiment.root / "hf", tmp_path / "judge")
    (tmp_path / "sglang.yaml").write_text(JUDGED.replace("JUDGE", str(tmp_path / "judge")))
    judged = {"sglang_config": tmp_path / "sglang.yaml", "rollout_num_gpus": 2, "rm_type": None}
    process = start(experiment, tmp_path, **disk, **judged, custom_rm_path="serving_run_hooks.judged", num_rollout=3)
    output = end(process)
    assert process.returncode == 0, output
    every_sample_once(samples, 3)
    assert (tmp_path / "run" / "logs" / "judge-engine-1.log").exists()
    judged_by = Counter((tmp_path / "samples.jsonl.judge").read_text().split())
    assert judged_by["default"] == 64, "one round was left"
    assert set(judged_by) <= {"default", "1"}, "1 is what a scripted engine says when the function is tried beforehand"


def test_an_engine_that_dies_while_it_starts_ends_the_run(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    log = tmp_path / "run" / "logs" / "engine-0.log"
    process = start(experiment, tmp_path)
    killing = when(process, lambda: log.exists() and "server_args" in log.read_text(), lambda: kill(log))
    output = end(process)
    killing.join()
    assert process.returncode == 1, output
    assert "slime train: engine 0: the SGLang server at http://127.0.0.1:" in output
    assert "was killed by signal 9; the end of its log" in output
    assert not (tmp_path / "samples.jsonl").exists()
    wait_until_nothing_is_left(nothing_left)


@pytest.fixture
def external(experiment: Experiment, tmp_path: Path) -> Iterator[EngineProcess]:
    spec = EngineSpec(str(experiment.root / "hf"), device="cpu", start_seconds=200)
    with EngineProcess(spec, tmp_path / "external.log") as engine:
        yield engine


def test_an_external_engine_is_used_and_left_running(
    experiment: Experiment, tmp_path: Path, external: EngineProcess
) -> None:
    flags = {"colocate": None, "rollout_external_engine_addrs": external.url.removeprefix("http://")}
    process = start(experiment, tmp_path, num_rollout=2, **flags)
    output = end(process)
    assert process.returncode == 0, output
    every_sample_once(tmp_path / "samples.jsonl", 2)
    assert f"external regular engine {external.url}: {experiment.root / 'hf'} on 1 device(s)" in output
    assert external.failure() is None
