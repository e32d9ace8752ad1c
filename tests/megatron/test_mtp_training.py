"""The trainer with an MTP layer: its loss, that it learns, that the policy does not notice, and its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from megatron_cases import make_batch, make_sequences
from mtp_cases import Reference, make_with_mtp

from slime.data.train_batch import TrainSequence

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
MTP = {"mtp_num_layers": 1, "enable_mtp_training": True, "mtp_loss_scaling_factor": 0.5}
FREE = {"clip_grad": 1e9}
"""The norm of the gradient counts both losses, so clipping would tie the policy's step to the MTP layer's."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with experts and an MTP layer."""
    return make_with_mtp("glm4_moe", tmp_path_factory.mktemp("mtp"))


def expected_loss(folder: Path, sequences: list[TrainSequence]) -> float:
    """Mean of -log p over the trained tokens; one whose sequence begins a single token before it counts 0."""
    reference, total, count = Reference(folder), 0.0, 0.0
    for one in sequences:
        tokens, mask = torch.as_tensor(one.tokens), torch.as_tensor(one.loss_mask)
        count += float(mask.sum())
        first = max(one.total_length - one.response_length, 2)
        if first >= one.total_length:
            continue
        scores = reference.log_probs(tokens)[first - 2 : one.total_length - 2].detach()
        found = scores.gather(1, tokens[first:, None])[:, 0]
        total -= float((found * mask[first - one.total_length :]).sum())
    return total / count


def test_the_layer_learns_and_the_policy_does_not_notice(
    folder: Path, make_trainer: Callable[..., MegatronTrainer], tmp_path: Path
) -> None:
    sequences = make_sequences(8)
    results: dict[str, Any] = {}
    for name, flags in (("plain", {}), ("mtp", MTP)):
        trainer = make_trainer(folder, **flags, **FREE, lr_warmup_iters=1, save=str(tmp_path / name))
        trainer.load()
        metrics = [trainer.train(make_batch(sequences, 1, 4, round_id=i)) for i in range(4)]
        results[name] = (metrics, {key: tensor.clone() for key, tensor in trainer.named_hf_tensors()})
        trainer.save(3)
    (plain, plain_weights), (trained, weights) = results["plain"], results["mtp"]
    losses = [one["mtp_loss"] for one in trained]
    assert losses[0] == pytest.approx(expected_loss(folder, sequences), rel=1e-5)
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.9 * losses[0]
    assert "mtp_loss" not in plain[0]
    for a, b in zip(plain, trained, strict=True):
        assert a["loss"] == b["loss"] and b["grad_norm"] > a["grad_norm"]
    own = set(weights) - set(plain_weights)
    assert own and all(name.startswith("model.layers.4.") for name in own)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in plain_weights.items())

    again = make_trainer(folder, **MTP, **FREE, lr_warmup_iters=1, load=str(tmp_path / "mtp"))
    assert again.load().step == 3
    assert all(torch.equal(tensor, weights[name]) for name, tensor in again.named_hf_tensors())
    resumed = again.train(make_batch(sequences, 1, 4, round_id=4))
    assert resumed["mtp_loss"] < losses[-1]
