"""The dry run: layout and arithmetic without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slime.config import REGISTRY, Config, ConfigError, dry_run, render_dry_run, write_dry_run
from slime.config.dry_run import devices, micro_batches


def test_colocated_engines_share_the_training_devices(small: Callable[..., Config]) -> None:
    assert devices(small(actor_num_gpus_per_node=2)) == [
        {"device": 0, "train_rank": 0, "engine": 0},
        {"device": 1, "train_rank": 1, "engine": 1},
    ]


def test_separate_engines_follow_the_training_devices(small: Callable[..., Config]) -> None:
    config = small(colocate=False, actor_num_gpus_per_node=2, rollout_num_gpus=3)
    assert [(item["train_rank"], item["engine"]) for item in devices(config)] == [
        (0, None), (1, None), (None, 0), (None, 1), (None, 2),
    ]  # fmt: skip


def test_engines_of_several_gpus() -> None:
    config = Config(actor_num_gpus_per_node=4, rollout_num_gpus=4, rollout_num_gpus_per_engine=2, colocate=True)
    assert [item["engine"] for item in devices(config)] == [0, 0, 1, 1]


def test_the_numbers(small: Callable[..., Config]) -> None:
    config = small(
        num_rollout=5,
        global_batch_size=16,
        save="run",
        save_interval=2,
        eval_interval=2,
        eval_prompt_data=["a", "b.jsonl"],
    )
    numbers = dry_run(config)["derived"]
    assert numbers["samples_per_rollout"] == 32
    assert numbers["steps_per_rollout"] == 2
    assert numbers["dropped_samples_per_rollout"] == 0
    assert numbers["samples_per_step_and_rank"] == 16
    assert numbers["micro_batches_per_step_and_rank"] == {"least": 16, "most": 16}
    assert numbers["train_iters"] == 10
    assert numbers["total_samples"] == 160
    assert numbers["evaluations"] == 3  # before round 0, after rounds 1 and 3
    assert numbers["saves"] == 3  # after rounds 1 and 3, and the last


def first_fit(lengths: list[int], capacity: int) -> int:
    bins: list[int] = []
    for length in lengths:
        for index, used in enumerate(bins):
            if used + length <= capacity:
                bins[index] += length
                break
        else:
            bins.append(length)
    return len(bins)


@pytest.mark.parametrize("capacity", [24, 25, 40, 48, 100, 1000])
def test_dynamic_micro_batches_stay_in_their_bounds(small: Callable[..., Config], capacity: int) -> None:
    config = small(use_dynamic_batch_size=True, max_tokens_per_gpu=capacity)
    least, most = micro_batches(config, 32)
    patterns = [[24] * 32, [1] * 32, [13, 12] * 16, [24, 1] * 16, [1 + 7 * one % 24 for one in range(32)]]
    for lengths in patterns:
        assert least <= first_fit(lengths, capacity) <= most


def test_the_text_shows_what_was_given_and_from_where(small: Callable[..., Config]) -> None:
    text = render_dry_run(small(lr=4e-4, max_tokens_per_gpu=100))
    assert "    --lr 0.0004    (call)" in text
    assert "    --global-batch-size 32    (derived)" in text
    assert "    0: train rank 0, engine 0" in text
    assert "warning: [cfg] --max-tokens-per-gpu 100 has no effect" in text


def test_the_file_holds_every_flag(small: Callable[..., Config], tmp_path: Path) -> None:
    path = tmp_path / "dry.json"
    write_dry_run(small(), str(path))
    data = json.loads(path.read_text())
    assert set(data["configuration"]) == set(REGISTRY)
    assert data["configuration"]["--lr"] == {"value": 1e-06, "origin": "default"}
    with pytest.raises(ConfigError, match="cannot be written"):
        write_dry_run(small(), str(tmp_path / "absent" / "dry.json"))
