"""The hook that sees a rank's training data: what it may change takes effect, anything else is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slime.rollout.hook_loading import HookError

from .megatron_cases import make_batch, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]

HOOKS = """
import torch

def double(args, rollout_id, rollout_data):
    assert rollout_id == 0 and args.lr == 1e-3
    assert len(rollout_data["tokens"][0]) == rollout_data["total_lengths"][0]
    assert set(rollout_data) >= {"loss_masks", "rewards", "raw_reward", "rollout_log_probs", "sample_indices"}
    rollout_data["advantages"] = [2 * value for value in rollout_data["advantages"]]

def needs_log_probs(args, rollout_id, rollout_data):
    assert [len(one) for one in rollout_data["log_probs"]] == rollout_data["response_lengths"]

def masks(args, rollout_id, rollout_data):
    rollout_data["loss_masks"][0][:] = 0

def short(args, rollout_id, rollout_data):
    rollout_data["advantages"][1] = torch.zeros(1000)

def infinite(args, rollout_id, rollout_data):
    rollout_data["returns"] = [value / 0 for value in rollout_data["returns"]]

def returns_data(args, rollout_id, rollout_data):
    return rollout_data
"""


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module with the functions above."""
    (tmp_path / "postprocess_hooks.py").write_text(HOOKS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "postprocess_hooks"


def test_what_the_hook_changes_takes_effect(make_trainer: Make, hooks: str) -> None:
    """In a round of one step the ratio is 1, so twice the advantages are twice the policy term."""
    losses = []
    for flags in ({}, {"rollout_data_postprocess_path": f"{hooks}.double"}):
        trainer = make_trainer(**flags)
        trainer.load()
        losses.append(trainer.train(make_batch(make_sequences(8, seed=3)))["pg_loss"])
    assert abs(losses[0]) > 1e-3
    assert losses[1] == pytest.approx(2 * losses[0], rel=1e-5)


def test_log_probs_of_the_old_policy_are_there_when_they_are_computed(make_trainer: Make, hooks: str) -> None:
    trainer = make_trainer(rollout_data_postprocess_path=f"{hooks}.needs_log_probs")
    trainer.load()
    trainer.train(make_batch(make_sequences(8), steps=2))
    with pytest.raises(HookError, match="KeyError"):
        trainer.train(make_batch(make_sequences(8)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("masks", r"loss_masks changed; the denominators of the loss are those of the whole step"),
        ("short", r"advantages\[1\] of \[1000\]; it is a tensor of the \d+ response tokens"),
        ("infinite", r"returns\[0\] with a value that is not finite"),
        ("returns_data", r"it changes its arguments in place"),
    ],
)
def test_anything_else_is_refused_by_name(make_trainer: Make, hooks: str, name: str, words: str) -> None:
    trainer = make_trainer(rollout_data_postprocess_path=f"{hooks}.{name}")
    trainer.load()
    with pytest.raises(
        HookError, match=rf"--rollout-data-postprocess-path {hooks}.{name} \(round 0, rank 0\): .*{words}"
    ):
        trainer.train(make_batch(make_sequences(4)))
