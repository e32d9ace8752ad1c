"""Functions of the user's in the objective: twins of built-in parts train the same, and wrong ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from .algorithm_cases import DR_GRPO, round_sequences
from .megatron_cases import make_batch

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]
OWN = f"{__package__}.objective_functions"
ADVANTAGE, TIS = "custom_advantage_function_path", "custom_tis_function_path"
REDUCER, LOSS = "custom_pg_loss_reducer_function_path", "custom_loss_function_path"
TWINS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({ADVANTAGE: f"{OWN}.rewards_as_advantages"}, {}),
    ({ADVANTAGE: f"{OWN}.rewards_as_advantages", "normalize_advantages": True},
     {"normalize_advantages": True}),
    ({"use_tis": True, TIS: f"{OWN}.truncated_sampling"}, {"use_tis": True}),
    ({"get_mismatch_metrics": True, TIS: f"{OWN}.truncated_sampling"}, {"get_mismatch_metrics": True}),
    ({REDUCER: f"{OWN}.sample_means"}, {}),
    ({REDUCER: f"{OWN}.constant_sums"}, {REDUCER: DR_GRPO}),
    ({"loss_type": "custom_loss", LOSS: f"{OWN}.cross_entropy"}, {"loss_type": "sft_loss"}),
    ({"loss_type": "custom_loss", LOSS: f"{OWN}.cross_entropy", "calculate_per_token_loss": True},
     {"loss_type": "sft_loss", "calculate_per_token_loss": True}),
    ({"loss_type": "custom_loss", LOSS: f"{OWN}.cross_entropy",
      "disable_compute_advantages_and_returns": True}, {"loss_type": "sft_loss"}),
]  # fmt: skip


@pytest.mark.parametrize(("own", "built_in"), TWINS, ids=lambda one: "-".join(map(str, one.values()))[-60:])
def test_a_twin_trains_the_same(make_trainer: Make, own: dict[str, Any], built_in: dict[str, Any]) -> None:
    found = []
    for flags in (own, built_in):
        trainer = make_trainer(lr_warmup_iters=0, lr=5e-3, **flags)
        trainer.load()
        found.append(trainer.train(make_batch(round_sequences(0), steps=2, micro_batch=3)))
    for name in found[0].keys() & found[1].keys():
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4, abs=1e-6), name
    assert found[0]["grad_norm"] > 0


@pytest.mark.parametrize(("flags", "words"), [
    ({ADVANTAGE: f"{OWN}.half_of_advantages"}, [r"without setting rollout_data\['returns'\]", "round 0"]),
    ({"use_tis": True, TIS: f"{OWN}.without_masks"}, [r"it must be \(pg_loss, loss_masks, metrics\)"]),
    ({REDUCER: f"{OWN}.squares"}, ["the reducer is not linear", "--custom-pg-loss-reducer-function-path"]),
    ({"loss_type": "custom_loss", LOSS: f"{OWN}.no_loss"}, ["it must depend on the logits"]),
])  # fmt: skip
def test_a_wrong_one_is_refused_by_name(make_trainer: Make, flags: dict[str, Any], words: list[str]) -> None:
    from slime.rollout.hook_loading import HookError

    trainer = make_trainer(**flags)
    trainer.load()
    with pytest.raises(HookError, match=words[0]) as refused:
        trainer.train(make_batch(round_sequences(0)))
    assert all(word.replace("\\", "") in str(refused.value) for word in words)
