"""Saves that are killed, saves in the background, and checkpoints that are deleted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from slime.weights.tracker import CheckpointError, read_tracker

from .megatron_cases import make_batch, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(("ranks", "background"), [(1, False), (2, True)], ids=["foreground", "background, two ranks"])
def test_no_kill_loses_the_last_checkpoint(ranks: int, background: bool, hf_folder: Path, tmp_path: Path) -> None:
    kills = kill_saves(hf_folder, tmp_path / "run", 4, ranks, background)
    assert len(kills) == 4
    for kill in kills:
        check_kill(kill, background)


def kill_saves(hf: Path, root: Path, kills: int, ranks: int, background: bool) -> list[dict[str, Any]]:
    """One entry for each kill, see `interrupted_saves.interrupt`. A checkpoint that does not load raises."""
    command = [sys.executable, "-W", "ignore", "-m", f"{__package__}.interrupted_saves"]
    command += [str(hf), str(root), "--kills", str(kills)]
    command += ["--ranks", str(ranks), *(["--async-save"] if background else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=1500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_kill(kill: dict[str, Any], background: bool) -> None:
    """The run resumed where the tracker pointed, and left it at a step whose save was complete."""
    loaded, *begun = kill["reported"]
    assert loaded == (-1 if kill["before"] is None else kill["before"])
    # In the background the end of a save says that the one before it is complete.
    complete = max(loaded, begun[-1] - 1) if background else begun[-1]
    assert complete <= kill["after"] <= begun[-1] + 1


def test_a_background_save_is_seen_when_it_is_whole(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slime.megatron import checkpoint_writer

    root = tmp_path / "run"
    trainer = make_trainer(save=str(root), load=str(root), async_save=True, num_rollout=4)
    trainer.load()
    trainer.train(make_batch(make_sequences(8, 0)))
    trainer.save(0, {"offset": 8})
    trainer._writer.wait()
    expected = {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}
    may_finish, publish = threading.Event(), checkpoint_writer.publish

    def held_back(*arguments: Any) -> None:
        may_finish.wait(60)
        publish(*arguments)

    monkeypatch.setattr(checkpoint_writer, "publish", held_back)
    trainer.save(1, {"offset": 16})
    trainer.train(make_batch(make_sequences(8, 1)))  # goes on meanwhile, and must not reach what is being written
    assert read_tracker(root) == 0
    assert not (root / "iter_0000001").exists()
    may_finish.set()
    trainer.save(2)  # waits for the one before
    assert read_tracker(root) in {1, 2}
    trainer.save(3)  # the last round's is waited for
    assert read_tracker(root) == 3
    assert not list(root.glob(".*"))
    (root / "latest_checkpointed_iteration.txt").write_text("1")
    again = make_trainer(save=str(root), load=str(root))
    assert again.load().data_cursor == {"offset": 16}
    for name, tensor in again.named_hf_tensors():
        assert torch.equal(tensor, expected[name]), name


def test_a_background_save_that_fails_is_raised_by_the_next(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slime.megatron import checkpoint_writer

    root = tmp_path / "run"
    trainer = make_trainer(save=str(root), load=str(root), async_save=True, keep_last=1, num_rollout=9)
    trainer.load()
    trainer.save(0)
    trainer._writer.wait()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_writer, "publish", full)
        trainer.save(1)
        with pytest.raises(CheckpointError, match="No space left on device"):
            trainer.save(2)
    assert read_tracker(root) == 0, "and nothing was pruned for a checkpoint that is not there"
    assert trainer.load().step == 0
    trainer.save(2)
    trainer.close()
    assert (read_tracker(root), sorted(path.name for path in root.glob("iter_*"))) == (2, ["iter_0000002"])


def test_keep_last_leaves_the_latest_and_what_is_not_its_own(make_trainer: Make, tmp_path: Path) -> None:
    root = tmp_path / "run"
    for other in ("release", "iter_0000099", "iter_7", "logs", ".iter_0000001.deleted"):
        (root / other).mkdir(parents=True)
    trainer = make_trainer(
        save=str(root), load=str(root), keep_last=2, advantage_estimator="ppo", ref_update_interval=2, kl_coef=0.1
    )
    trainer.load()
    for step in (2, 4, 5, 8):
        trainer.save(step)
    names = sorted(path.name for path in root.iterdir())
    assert names == [
        "critic", "iter_0000005", "iter_0000008", "iter_0000099", "iter_7", "latest_checkpointed_iteration.txt",
        "logs", "reference", "release",
    ]  # fmt: skip
    for part in ("critic", "reference"):
        assert sorted(path.name for path in (root / part).glob("iter_*")) == ["iter_0000005", "iter_0000008"]
    assert trainer.load().step == 8


def test_without_keep_last_all_stay(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer(save=str(tmp_path), load=str(tmp_path))
    trainer.load()
    for step in range(3):
        trainer.save(step)
    assert len(list(tmp_path.glob("iter_*"))) == 3
