"""Rounds of the trainer in which the experts stand fast, against the same rounds by transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from slime.data.routes import RouteShape, needed_rows, route_shape
from slime.data.train_batch import TrainSequence
from slime.megatron.batch_checks import TrainBatchError
from slime.weights.hf_io import HFCheckpoint

from .families import make_family, reference
from .megatron_cases import (
    VOCABULARY,
    make_batch,
    make_sequences,
    reference_log_probs,
    reference_loss,
    reference_optimizer,
)
from .replay_cases import force, record

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
ADAM_EPS = 1e-3
"""Large, so that gradients that are zero but for rounding do not move weights."""
WEIGHT_TOLERANCE = 1e-5
"""Of weights after three steps of Adam at a rate of 2e-2, in float32; the largest seen was 1.8e-6."""


class Forced:
    """Transformers' model, which sends every sequence to the experts that are kept for it."""

    def __init__(self, model: PreTrainedModel, routes: list[dict[int, torch.Tensor]], tokens: list[Any]) -> None:
        self.model = model
        self.routes = {tuple(one.tolist()): kept for one, kept in zip(tokens, routes, strict=True)}

    def __call__(self, tokens: torch.Tensor) -> Any:
        force(self.model, self.routes[tuple(tokens[0].tolist())])
        return self.model(tokens)


def sequences_with_routes(shape: RouteShape) -> list[TrainSequence]:
    """Samples with experts that nobody would choose; of one, the last masked tokens have none."""
    sequences, random = make_sequences(12, seed=3), np.random.default_rng(5)
    sequences[2].loss_mask[-1] = 0.0
    for one in sequences:
        draws = random.random((one.total_length - 1, shape.layers, shape.count)).argsort(-1)[..., : shape.chosen]
        rows = needed_rows(one.total_length - one.response_length, one.loss_mask)
        one.rollout_routed_experts = draws[: rows if one is sequences[2] else None].astype(shape.dtype)
        one.rollout_mask_sum = int(one.loss_mask.sum())
    return sequences


@pytest.mark.parametrize("flag", ["use_routing_replay", "use_rollout_routing_replay"])
def test_a_round_trains_with_the_same_experts_in_every_step(
    flag: str, make_trainer: Callable[..., MegatronTrainer], tmp_path: Path
) -> None:
    """Three steps, after each of which the routers would choose otherwise; the same by transformers."""
    hf = make_family("qwen3_moe", tmp_path / "hf", vocab_size=VOCABULARY)
    trainer = make_trainer(hf, lr=2e-2, lr_warmup_iters=0, adam_eps=ADAM_EPS, **{flag: True})
    trainer.load()
    sequences = sequences_with_routes(route_shape(trainer.model_config))
    trainer.train(make_batch(sequences, steps=3, micro_batch=2))

    model = reference(hf)
    tokens = [torch.as_tensor(one.tokens) for one in sequences]
    routes = [record(model, one) for one in tokens]
    before = list(routes)
    if flag == "use_rollout_routing_replay":
        routes = [{layer: with_last(one.rollout_routed_experts, layer, one.total_length) for layer in range(4)}
                  for one in sequences]  # fmt: skip
    forced = Forced(model, routes, tokens)
    with torch.no_grad():
        old = [reference_log_probs(forced, one) for one in sequences]
    optimizer = reference_optimizer(model, lr=2e-2)
    for group in optimizer.param_groups:
        group["eps"] = ADAM_EPS
    for begin in range(0, 12, 4):
        optimizer.zero_grad()
        part = slice(begin, begin + 4)
        reference_loss(forced, sequences[part], old[part]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.save_pretrained(tmp_path / "expected")
    expected = HFCheckpoint(tmp_path / "expected")
    gaps = [(tensor - expected.read(name)).abs().max().item() for name, tensor in trainer.named_hf_tensors()]
    assert max(gaps) < WEIGHT_TOLERANCE
    trained = reference(tmp_path / "expected")
    assert any(not torch.equal(record(trained, one)[3], kept[3]) for one, kept in zip(tokens, before, strict=True))


def with_last(routes: np.ndarray | None, layer: int, length: int) -> torch.Tensor:
    """The experts of one layer, filled up with some for tokens that have none and that nothing depends on."""
    assert routes is not None
    return torch.from_numpy(np.concatenate([routes, *[routes[:1]] * (length - len(routes))])[:, layer].astype(np.int64))


def test_a_batch_without_experts_is_refused(make_trainer: Callable[..., MegatronTrainer], tmp_path: Path) -> None:
    hf = make_family("qwen3_moe", tmp_path / "hf", vocab_size=VOCABULARY)
    trainer = make_trainer(hf, use_rollout_routing_replay=True)
    trainer.load()
    sequences = sequences_with_routes(route_shape(trainer.model_config))
    kept = sequences[1].rollout_routed_experts
    assert kept is not None
    for broken, message in (
        (None, "sample 101 came without rollout_routed_experts"),
        (kept[:2], r"sample 101: .* shape \[2, 4, 2\]; this model's are .* = \[[\d to]+, 4, 2\]"),
        (kept[:, :3], r"sample 101: .* shape \[\d+, 3, 2\]"),
        (kept[..., :1].repeat(2, axis=-1), "sample 101: .* one of them twice"),
    ):
        sequences[1].rollout_routed_experts = broken
        with pytest.raises(TrainBatchError, match=message):
            trainer.train(make_batch(sequences))
