"""The trainer with an MTP layer: its loss, that it learns, that the policy does not notice, and its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from slime.data.train_batch import TrainSequence
from slime.weights.convert import hf_to_megatron
from slime.weights.export import megatron_to_hf
from slime.weights.hf_config import read_config
from slime.weights.launch import Layout
from slime.weights.mtp import repeated_tensors, with_mtp
from slime.weights.tracker import CheckpointError

from .megatron_cases import make_batch, make_sequences
from .mtp_cases import Reference, make_with_mtp

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


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_conversion_there_and_back(folder: Path, make_trainer: Callable[..., MegatronTrainer], tmp_path: Path) -> None:
    """The same bytes; after training, the copies of embedding and head that stand beside the layer follow them."""
    for name, layers in (("with", 1), ("without", 0)):
        hf_to_megatron(folder, tmp_path / name, Layout(), False, lambda line: None, layers)
    back = tmp_path / "back"
    megatron_to_hf(folder, tmp_path / "with", back, 2**30, False, lambda line: None)
    assert (back / "model.safetensors").read_bytes() == saved_again(tensors_of(folder), tmp_path).read_bytes()

    make_trainer(folder, ref_load=str(tmp_path / "with")).load()  # a run without MTP leaves the layer unread
    with pytest.raises(CheckpointError, match="has no MTP layers, and --mtp-num-layers is 1"):
        make_trainer(folder, **MTP, ref_load=str(tmp_path / "without")).load()
    trainer = make_trainer(
        folder, **MTP, lr_warmup_iters=1, ref_load=str(tmp_path / "with"), save=str(tmp_path / "run")
    )
    trainer.load()
    trainer.train(make_batch(make_sequences(8), 1, 4))
    trainer.save(0)
    weights = {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}
    trainer.close()
    trained = tmp_path / "trained"
    megatron_to_hf(folder, tmp_path / "run", trained, 2**30, False, lambda line: None)
    found, copies = tensors_of(trained), repeated_tensors(with_mtp(read_config(folder), 1))
    assert set(found) == set(weights) | set(copies)
    assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())
    for copy, source in copies.items():
        assert torch.equal(found[copy], weights[source]) and not torch.equal(found[copy], tensors_of(folder)[copy])


def saved_again(tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    """Written as a conversion writes: safetensors orders by dtype and name alone."""
    save_file(tensors, folder / "again.safetensors", metadata={"format": "pt"})
    return folder / "again.safetensors"
