"""A short real run: Ray, SGLang and Megatron-Core on a CPU, from the command line to the files that it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .tiny_run import Experiment, slime

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

ROUNDS = 4


@pytest.fixture(scope="module")
def run(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a finished run of four rounds, and what it printed."""
    save = tmp_path_factory.mktemp("run")
    few = experiment.root / "data" / "heldout.jsonl"
    done = slime(
        *experiment.words(
            save,
            num_rollout=ROUNDS,
            eval_interval=ROUNDS,
            eval_prompt_data=f"sums {few}@[0:40]",
            tensorboard_dir=save / "tensorboard",
            check_weight_update_equal=True,
            recipe="tiny",
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return save, done.stdout


def records(save: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (save / "metrics.jsonl").read_text().splitlines()]


def rounds(save: Path) -> list[dict[str, float]]:
    return [record for record in records(save) if "rollout/raw_reward" in record]


def test_every_round_is_recorded_once(run: tuple[Path, str]) -> None:
    assert [record["round"] for record in rounds(run[0])] == list(range(ROUNDS))


def test_every_sample_comes_from_the_newest_weights(run: tuple[Path, str]) -> None:
    """The version rises by one with each push, and a synchronous loop never trains on older samples."""
    assert [record["rollout/weight_version"] for record in rounds(run[0])] == [1, 2, 3, 4]
    assert all(record["staleness/max"] == 0 for record in rounds(run[0]))


def test_engine_and_trainer_agree_on_every_token(run: tuple[Path, str]) -> None:
    """The trainer scores the engine's tokens with the weights that it pushed; in float32 both compute the same."""
    for record in rounds(run[0]):
        assert record["train/train_rollout_logprob_abs_diff"] < 1e-5
        assert record["train/train_rollout_logprob_abs_diff_max"] < 1e-4


def test_training_moves_the_weights(run: tuple[Path, str]) -> None:
    for record in rounds(run[0]):
        assert record["train/grad_norm"] > 0
        assert record["train/lr"] > 0
        assert 0 < record["rollout/raw_reward"] < 1  # a warm start that is neither hopeless nor done


def test_held_out_accuracy_is_read_before_and_after(run: tuple[Path, str]) -> None:
    readings = [(record["round"], record["eval/sums"]) for record in records(run[0]) if "eval/sums" in record]
    assert [number for number, _ in readings] == [-1, ROUNDS - 1]
    assert all(0.1 < value < 1 for _, value in readings)


def test_the_rounds_are_printed_with_the_time_left(run: tuple[Path, str]) -> None:
    lines = [line for line in run[1].splitlines() if "round " in line and "reward" in line]
    assert len(lines) == ROUNDS
    assert all("left" in line for line in lines)
    assert "held-out sums: " in run[1]


def test_tensorboard_holds_the_curve(run: tuple[Path, str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run[0] / "tensorboard"))
    events.Reload()
    curve = [one.value for one in events.Scalars("rollout/raw_reward")]
    assert curve == pytest.approx([record["rollout/raw_reward"] for record in rounds(run[0])], abs=1e-6)


def test_nothing_runs_afterwards(run: tuple[Path, str], nothing_left: Callable[[], list[int]]) -> None:
    assert nothing_left() == []


def test_the_run_resumes_where_it_was_saved(run: tuple[Path, str], experiment: Experiment) -> None:
    """Round, optimizer, prompts and weight version continue; differences on disk carry the weights this time, to an
    engine that shares nothing with the trainer.
    """
    save, _ = run
    assert (save / "latest_checkpointed_iteration.txt").read_text().strip() == str(ROUNDS - 1)
    disk = save / "weights"
    done = slime(
        *experiment.words(
            save,
            num_rollout=ROUNDS + 1,
            colocate=None,
            rollout_num_gpus=1,
            update_weight_mode="delta",
            update_weight_transport="disk",
            update_weight_disk_dir=disk,
            update_weight_local_checkpoint_dir=save / "local",
            lr_warmup_iters=0,
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"iter_{ROUNDS - 1:07d}" in done.stdout
    last = rounds(save)[-1]
    assert last["round"] == ROUNDS
    assert last["rollout/weight_version"] == ROUNDS + 1
    assert last["train/train_rollout_logprob_abs_diff_max"] < 1e-4
    assert list(disk.iterdir()) == []  # versions are removed once they are loaded
    assert 0 < last["perf/update_weights_bytes"] < last["perf/update_weights_full_bytes"]
    assert last["perf/update_weights_reseeded"] == 0


def test_one_model_on_two_trainers(experiment: Experiment, tmp_path: Path) -> None:
    """Tensor and sequence parallel: two processes hold half of each weight, and the engines receive whole ones."""
    done = slime(
        *experiment.words(
            tmp_path,
            num_rollout=2,
            save_interval=None,
            actor_num_gpus_per_node=2,
            tensor_model_parallel_size=2,
            sequence_parallel=True,
            rollout_num_gpus=1,
        ),
        folder=experiment.root,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for record in rounds(tmp_path):
        assert record["train/train_rollout_logprob_abs_diff_max"] < 1e-4


def test_two_trainers_and_relative_paths(experiment: Experiment, tmp_path: Path) -> None:
    """Two processes of training share a step, and each finds what the launcher names relative to its folder."""
    done = slime(
        *experiment.words(
            tmp_path,
            hf_checkpoint="hf",
            ref_load="torch_dist",
            prompt_data="data/train.jsonl",
            num_rollout=2,
            save_interval=None,
            actor_num_gpus_per_node=2,
            rollout_num_gpus=1,
        ),
        folder=experiment.root,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for record in rounds(tmp_path):
        assert record["train/global_batch_size"] == 64
        assert record["train/train_rollout_logprob_abs_diff_max"] < 1e-4
    assert (tmp_path / "iter_0000001").is_dir()
