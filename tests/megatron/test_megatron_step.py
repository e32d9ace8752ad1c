"""The training step against plain torch on transformers' model: loss, gradients, clipping, Adam, schedule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from .megatron_cases import (
    load_hf_model,
    make_batch,
    make_sequences,
    reference_log_probs,
    reference_loss,
    reference_optimizer,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]


def assert_same_weights(trainer: MegatronTrainer, model: PreTrainedModel, atol: float) -> None:
    expected = dict(model.named_parameters())
    for name, tensor in trainer.named_hf_tensors():
        torch.testing.assert_close(
            tensor, expected[name].detach(), rtol=0, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_three_rounds_equal_plain_torch(make_trainer: Make, hf_folder: Path) -> None:
    trainer, model = make_trainer(clip_grad=0.5), load_hf_model(hf_folder)
    trainer.load()
    optimizer = reference_optimizer(model)
    for round_id in range(3):
        sequences = make_sequences(16, seed=round_id)
        metrics = trainer.train(make_batch(sequences))
        optimizer.zero_grad()
        loss = reference_loss(model, sequences)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (round_id + 1) / 4
        optimizer.step()
        assert metrics["loss"] == pytest.approx(float(loss), abs=1e-5)
        assert metrics["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
        assert float(norm) > 0.5, "the norm must exceed the limit, or clipping is not tested"
        assert metrics["lr"] == pytest.approx(1e-3 * (round_id + 1) / 4)
        # Adam divides by the root of the second moment: where that is tiny, rounding shows; a wrong sign or a missing
        # step would be off by the rate, 2.5e-4 and more.
        assert_same_weights(trainer, model, atol=2e-5)


def test_several_steps_measure_the_ratio_from_the_first(make_trainer: Make, hf_folder: Path) -> None:
    trainer, model = make_trainer(lr=5e-3, lr_warmup_iters=0), load_hf_model(hf_folder)
    trainer.load()
    sequences = make_sequences(16, seed=5)
    with torch.no_grad():
        old = [reference_log_probs(model, sequence) for sequence in sequences]
    metrics = trainer.train(make_batch(sequences, steps=2))
    optimizer = reference_optimizer(model, lr=5e-3)
    losses = []
    for half in (slice(0, 8), slice(8, 16)):
        optimizer.zero_grad()
        loss = reference_loss(model, sequences[half], old[half])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss))
    assert metrics["loss"] == pytest.approx(np.mean(losses), abs=1e-4)
    assert metrics["pg_clipfrac"] > 0, "the second step must clip some ratios, or the old log-probs are not tested"
    with torch.no_grad():
        gaps = [
            (log_probs - torch.as_tensor(s.rollout_log_probs)).abs()[torch.as_tensor(s.loss_mask) > 0]
            for log_probs, s in zip(old, sequences, strict=True)
        ]
    assert metrics["train_rollout_logprob_abs_diff"] == pytest.approx(float(torch.cat(gaps).mean()), abs=1e-5)
    assert metrics["train_rollout_logprob_abs_diff_max"] == pytest.approx(float(torch.cat(gaps).max()), abs=1e-5)


def test_micro_batches_do_not_change_the_step(make_trainer: Make) -> None:
    sequences = make_sequences(12, seed=3)
    results = []
    for size in (12, 5, 1):
        trainer = make_trainer()
        trainer.load()
        metrics = trainer.train(make_batch(sequences, micro_batch=size))
        results.append((metrics, {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}))
    for metrics, weights in results[1:]:
        assert metrics == pytest.approx(results[0][0], rel=1e-4, abs=1e-5)
        for name, tensor in weights.items():
            torch.testing.assert_close(tensor, results[0][1][name], rtol=0, atol=1e-5)


def test_per_token_loss_and_icepop(make_trainer: Make, hf_folder: Path) -> None:
    model = load_hf_model(hf_folder)
    sequences = make_sequences(10, seed=8)
    with torch.no_grad():
        exact = [reference_log_probs(model, sequence) for sequence in sequences]
    offsets = np.random.default_rng(0)
    for sequence, log_probs in zip(sequences, exact, strict=True):
        shift = offsets.uniform(-1.5, 1.5, sequence.response_length).astype(np.float32)
        sequence.rollout_log_probs = np.minimum(log_probs.numpy() - shift, 0)
    trainer = make_trainer(
        calculate_per_token_loss=True,
        use_tis=True,
        tis_clip=2.0,
        tis_clip_low=0.5,
        custom_tis_function_path="slime.algorithms.corrections.icepop",
    )
    trainer.load()
    metrics = trainer.train(make_batch(sequences))
    total, kept, tokens = 0.0, 0, 0
    for sequence, log_probs in zip(sequences, exact, strict=True):
        for t in range(sequence.response_length):
            if sequence.loss_mask[t]:
                weight = float(np.exp(float(log_probs[t]) - float(sequence.rollout_log_probs[t])))
                inside = 0.5 <= weight <= 2.0
                total -= weight * inside * sequence.advantage
                kept, tokens = kept + inside, tokens + 1
    assert 0 < kept < tokens
    assert metrics["loss"] == pytest.approx(total / tokens, abs=1e-4)
    assert metrics["tis_clipfrac"] == pytest.approx(1 - kept / tokens, abs=1e-6)


def test_a_broken_sample_is_named_and_changes_nothing(make_trainer: Make) -> None:
    from slime.megatron.step import NonFiniteStepError

    trainer = make_trainer()
    trainer.load()
    sequences = make_sequences(8, seed=2)
    trainer.train(make_batch(sequences))
    before = {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}
    good = sequences[5].advantage
    sequences[5].advantage = float("nan")
    with pytest.raises(NonFiniteStepError, match=r"sample 105 \(advantage nan at response token 0\)"):
        trainer.train(make_batch(sequences))
    sequences[5].advantage = 3e38  # each loss is finite, its gradient overflows
    with pytest.raises(NonFiniteStepError, match=r"gradient.*sample 105"):
        trainer.train(make_batch(sequences))
    for name, tensor in trainer.named_hf_tensors():
        assert torch.equal(tensor, before[name])
    sequences[5].advantage = good
    assert np.isfinite(trainer.train(make_batch(sequences))["loss"])


def test_a_batch_that_does_not_fit_is_refused(make_trainer: Make) -> None:
    from slime.megatron.batch_checks import TrainBatchError

    trainer = make_trainer()
    trainer.load()
    sequences = make_sequences(4)
    with pytest.raises(TrainBatchError, match="rank 1 of 2, this trainer is rank 0 of 1"):
        trainer.train(make_batch(sequences, rank=1, ranks=2))
    long = make_sequences(4)
    long[2].tokens = np.ones(65, np.int64)
    with pytest.raises(TrainBatchError, match="sample 102 has 65 tokens, and the model has 64"):
        trainer.train(make_batch(long))
    foreign = make_sequences(4)
    foreign[1].tokens[0] = 50
    with pytest.raises(TrainBatchError, match="sample 101 has the token id 50"):
        trainer.train(make_batch(foreign))


def test_one_process_holds_one_trainer(make_trainer: Make, hf_folder: Path) -> None:
    from slime.megatron.process import TrainerProcessError
    from slime.megatron.trainer import MegatronTrainer

    from .megatron_cases import make_config

    make_trainer()
    with pytest.raises(TrainerProcessError, match="one process holds one trainer"):
        MegatronTrainer(make_config(hf_folder))
