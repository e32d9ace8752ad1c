"""The dry run: layout and arithmetic without a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slime.config import REGISTRY, Config, ConfigError, dry_run, render_dry_run, write_dry_run
from slime.config.dry_run import micro_batches
from slime.config.layout import virtual_stages
from slime.train import due


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
    assert numbers["evaluations"] == 4  # before round 0, after rounds 1 and 3, and the last
    assert numbers["saves"] == 3  # after rounds 1 and 3, and the last


@pytest.mark.parametrize("rounds", [1, 3, 9, 10])
@pytest.mark.parametrize("interval", [1, 3, 4, 12])
@pytest.mark.parametrize("skip", [False, True])
def test_what_is_periodic_is_counted_as_the_loop_does_it(
    small: Callable[..., Config], rounds: int, interval: int, skip: bool
) -> None:
    numbers = dry_run(
        small(
            num_rollout=rounds,
            eval_interval=interval,
            eval_prompt_data=["a", "b.jsonl"],
            skip_eval_before_train=skip,
            save="run",
            save_interval=interval,
        )
    )["derived"]
    times = sum(due(interval, number, rounds) for number in range(rounds))
    assert numbers["evaluations"] == times + (not skip)
    assert numbers["saves"] == times


def test_ten_rounds_evaluated_every_third(small: Callable[..., Config]) -> None:
    config = small(num_rollout=10, eval_interval=3, eval_prompt_data=["a", "b.jsonl"])
    assert dry_run(config)["derived"]["evaluations"] == 5  # before, after rounds 2, 5 and 8, and the last


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


def test_virtual_stages_take_whole_groups() -> None:
    """Built directly: the interleaved pipeline of 2 x 3 parts, or of 2 layers a part, of a model of 12 layers."""
    sizes = {"pipeline_model_parallel_size": 2, "micro_batch_size": 3}
    config = Config(**sizes, num_virtual_stages_per_pipeline_rank=3)  # type: ignore[arg-type]
    assert micro_batches(config, 16) == (6, 6) and virtual_stages(config, 12) == 3
    config = Config(**sizes, num_layers_per_virtual_pipeline_stage=2,  # type: ignore[arg-type]
                    microbatch_group_size_per_virtual_pipeline_stage=4)  # fmt: skip
    assert micro_batches(config, 16) == (8, 8) and virtual_stages(config, 12) == 3
    assert micro_batches(Config(**sizes), 13) == (5, 5) and virtual_stages(Config(**sizes), 12) == 1  # type: ignore[arg-type]


def test_the_text_shows_what_was_given_and_from_where(small: Callable[..., Config]) -> None:
    text = render_dry_run(dry_run(small(lr=4e-4, max_tokens_per_gpu=100)))
    assert "    --lr 0.0004    (call)" in text
    assert "    --global-batch-size 32    (derived)" in text
    assert "process slots:\n    node  GPU  train rank  TP  CP  DP  PP  EP  engine" in text
    assert "\n    0     0    0           0   0   0   0   0   0, rank 0\n" in text
    assert re.search(r"warning: \[cfg.*\] --max-tokens-per-gpu 100 has no effect", text)


def test_the_file_holds_every_flag(small: Callable[..., Config], tmp_path: Path) -> None:
    path = tmp_path / "dry.json"
    write_dry_run(dry_run(small()), str(path))
    data = json.loads(path.read_text())
    assert set(data["configuration"]) == set(REGISTRY)
    assert data["configuration"]["--lr"] == {"value": 1e-06, "origin": "default"}
    with pytest.raises(ConfigError, match="cannot be written"):
        write_dry_run(dry_run(small()), str(tmp_path / "absent" / "dry.json"))


@pytest.mark.parametrize("content", ["notes", "{}", '{"schema": 1}', "[" * 100_000])
def test_the_file_is_not_written_over_something_else(
    small: Callable[..., Config], tmp_path: Path, content: str
) -> None:
    path = tmp_path / "dry.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="exists and is no earlier dry run"):
        write_dry_run(dry_run(small()), str(path))
    assert path.read_text() == content
    path.unlink()
    write_dry_run(dry_run(small()), str(path))
    write_dry_run(dry_run(small(lr=1.0)), str(path))
    assert json.loads(path.read_text())["configuration"]["--lr"]["value"] == 1.0
