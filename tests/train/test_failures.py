"""Each way to go wrong ends with a message that names it, a status other than 0, and no process left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .tiny_run import ENVIRONMENT, Experiment, processes_naming, slime

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

# From the kill of a process to the end of the run; the run is not told, it must notice.
NOTICE_SECONDS = 240


def test_a_misspelt_flag_is_answered_with_the_nearest(experiment: Experiment, tmp_path: Path) -> None:
    done = slime(*experiment.words(tmp_path), "--rolout-temperature", "1")
    assert done.returncode == 2
    assert "--rolout-temperature" in done.stderr and "--rollout-temperature" in done.stderr


def test_a_missing_checkpoint_is_named(experiment: Experiment, tmp_path: Path) -> None:
    done = slime(*experiment.words(tmp_path, ref_load=tmp_path / "nowhere"))
    assert done.returncode == 2
    assert str(tmp_path / "nowhere") in done.stderr


def test_prompts_without_labels_are_named_with_their_line(experiment: Experiment, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": "1+1=", "answer": "2"}) + "\n")
    done = slime(*experiment.words(tmp_path / "run", prompt_data=prompts))
    assert done.returncode == 2
    assert "prompts.jsonl" in done.stderr and "label" in done.stderr and "answer" in done.stderr


def test_prompts_that_are_all_too_long_are_refused_before_ray_starts(experiment: Experiment, tmp_path: Path) -> None:
    done = slime(*experiment.words(tmp_path, rollout_max_prompt_len=1))
    assert done.returncode == 2
    assert "prompts exceed --rollout-max-prompt-len 1" in done.stderr
    assert "Started a local Ray instance" not in done.stderr


def test_a_busy_port_is_named(experiment: Experiment, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = slime(*experiment.words(tmp_path, sglang_port=port))
    assert done.returncode == 2
    assert str(port) in done.stderr and "--sglang-port" in done.stderr


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def start_endless(experiment: Experiment, save: Path) -> subprocess.Popen[str]:
    """Start a run that would take hours, and wait until it has trained a round."""
    words = experiment.words(save, num_rollout=100_000, save_interval=100_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "slime", *words],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    metrics = save / "metrics.jsonl"
    try:
        wait_for(lambda: metrics.exists() and metrics.read_text(), process, 480)
    except BaseException:
        process.kill()
        raise
    return process


def server_of(experiment: Experiment) -> int:
    """Process id of the SGLang server itself, not of the guard, which has the same words in its command line."""
    pids = [
        pid
        for pid in processes_naming(f"--model-path {experiment.root}")
        if "guard.py" not in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    assert len(pids) == 1
    return pids[0]


def end(process: subprocess.Popen[str]) -> str:
    """Wait for the run to end by itself; returns what it printed."""
    try:
        output, _ = process.communicate(timeout=NOTICE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return output


def test_a_killed_engine_ends_the_run_with_its_log(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    process = start_endless(experiment, tmp_path)
    os.kill(server_of(experiment), signal.SIGKILL)
    output = end(process)
    assert process.returncode == 1
    assert "slime train: engine 0: the SGLang server at http://127.0.0.1:" in output
    assert "was killed by signal 9" in output
    assert str(tmp_path / "logs" / "engine-0.log") in output
    wait_until_nothing_is_left(nothing_left)


def test_a_killed_trainer_ends_the_run(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    process = start_endless(experiment, tmp_path)
    trainers = [pid for pid in processes_naming("ray::TrainerActor") if descends_from(pid, process.pid)]
    assert len(trainers) == 1
    os.kill(trainers[0], signal.SIGKILL)
    output = end(process)
    assert process.returncode == 1
    assert "slime train: trainer rank 0 ended unexpectedly" in output
    wait_until_nothing_is_left(nothing_left)


def wait_until_nothing_is_left(nothing_left: Callable[[], list[int]]) -> None:
    """The guard of a server ends it when its owner is gone, which a busy machine may take a while to notice."""
    deadline = time.monotonic() + NOTICE_SECONDS
    while nothing_left():
        assert time.monotonic() < deadline, nothing_left()
        time.sleep(0.5)


def test_a_terminated_run_ends_its_processes(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    """`ray job stop` sends SIGTERM to the driver."""
    process = start_endless(experiment, tmp_path)
    process.terminate()
    output = end(process)
    assert process.returncode == 130
    assert "every process of the run has ended" in output
    wait_until_nothing_is_left(nothing_left)


def test_a_killed_run_leaves_no_server(
    experiment: Experiment, tmp_path: Path, nothing_left: Callable[[], list[int]]
) -> None:
    process = start_endless(experiment, tmp_path)
    process.kill()
    process.wait()
    wait_until_nothing_is_left(nothing_left)


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether `ancestor` is among the parents of `pid`."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
