"""Every algorithm in the trainer: against plain torch on transformers' models, and the same on 1, 2 and 4 ranks."""

from __future__ import annotations

import math
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from slime.data.train_batch import TrainSequence
from slime.megatron.batch_checks import TrainBatchError
from slime.ports import free_ports
from slime.weights.tracker import CheckpointError

from .algorithm_cases import ALGORITHMS, round_sequences, run_algorithms, with_models
from .megatron_cases import load_hf_model, make_batch, make_hf_model, reference_log_probs
from .rank_processes import run_ranks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]


@pytest.fixture(scope="module")
def models(hf_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Policy, reference (where training starts) and teacher."""
    folder = tmp_path_factory.mktemp("models")
    return hf_folder, hf_folder, make_hf_model(folder / "teacher", seed=2)


def run_on(ranks: int, micro_batch: int, models: tuple[Path, Path, Path], out: Path) -> dict[str, Any]:
    """Results of rank 0; the others must have the same."""
    # The server imports Megatron once, for the ranks of all runs.
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["slime.megatron.trainer", f"{__package__}.algorithm_cases"]
    )
    ports = free_ports(len(ALGORITHMS))
    run_ranks(run_algorithms, ranks, ports, models, out, micro_batch, start_method="forkserver")
    found = [
        torch.load(out / f"{rank}-of-{ranks}-by-{micro_batch}.pt", weights_only=True, map_location="cpu")
        for rank in range(ranks)
    ]
    for other in found[1:]:
        for name, result in other.items():
            assert result["metrics"] == found[0][name]["metrics"]
            assert all(torch.equal(result["weights"][k], v) for k, v in found[0][name]["weights"].items())
    return dict(found[0])


def test_every_algorithm_is_the_same_on_1_2_and_4_ranks(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Float32: sums in another order differ in the last digits, and Adam divides by small roots."""
    whole = run_on(1, 8, models, tmp_path)
    for ranks, micro_batch in ((2, 3), (4, 1)):
        found = run_on(ranks, micro_batch, models, tmp_path)
        for name, result in whole.items():
            for one, other in zip(result["metrics"], found[name]["metrics"], strict=True):
                assert other == pytest.approx(one, rel=2e-3, abs=2e-4), (name, ranks)
            for key, tensor in result["weights"].items():
                torch.testing.assert_close(
                    found[name]["weights"][key], tensor, rtol=0, atol=1e-4, msg=lambda m, k=key, n=name: f"{n} {k}: {m}"
                )


def masked(sequence: TrainSequence) -> list[int]:
    return [t for t in range(sequence.response_length) if sequence.loss_mask[t]]


def expected_loss(
    name: str, model: PreTrainedModel, old: list[Tensor], sequences: list[TrainSequence], flags: dict[str, Any]
) -> Tensor:
    """One step of gspo, cispo and rloo as their papers read, token by token on transformers' model."""
    low, high = 1 - flags.get("eps_clip", 0.2), 1 + flags.get("eps_clip_high", 0.28)
    total = torch.zeros(())
    for sequence, before in zip(sequences, old, strict=True):
        log_probs, trained = reference_log_probs(model, sequence), masked(sequence)
        ratios = (log_probs - before).exp()
        advantage = sequence.advantage
        divergence = float((before - log_probs.detach())[trained].mean())
        for t in trained:
            if name == "gspo":
                ratio = (log_probs - before)[trained].mean().exp()
                term = -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
            elif name == "cispo":
                term = -ratios[t].detach().clamp(low, high) * advantage * log_probs[t]
                term = term * (0.0 if advantage < 0 and divergence > 1e-4 else 1.0)
            else:
                weight = math.exp(float(log_probs[t].detach()) - float(sequence.rollout_log_probs[t]))
                term = -advantage * log_probs[t] * min(weight, 2.0)
            total = total + term / len(trained) / len(sequences)
    return total


@pytest.mark.parametrize("name", ["gspo", "cispo", "rloo"])
def test_two_steps_equal_plain_torch(make_trainer: Make, hf_folder: Path, name: str) -> None:
    flags = {key: value for key, value in ALGORITHMS[name].items() if key != "entropy_coef"}
    trainer, model = make_trainer(lr=5e-3, lr_warmup_iters=0, weight_decay=0.0, **flags), load_hf_model(hf_folder)
    trainer.load()
    sequences = round_sequences(0)
    with torch.no_grad():
        old = [reference_log_probs(model, sequence) for sequence in sequences]
    metrics = trainer.train(make_batch(sequences, steps=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0, eps=1e-8)
    losses = []
    for half in (slice(0, 8), slice(8, 16)):
        optimizer.zero_grad()
        loss = expected_loss(name, model, old[half], sequences[half], flags)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert metrics["loss"] == pytest.approx(np.mean(losses), abs=2e-4)
    for key, tensor in trainer.named_hf_tensors():
        torch.testing.assert_close(tensor, dict(model.named_parameters())[key].detach(), rtol=0, atol=3e-4)


def gradient_after(
    trainer: MegatronTrainer, model: PreTrainedModel, sequences: list[TrainSequence], loss: Tensor
) -> None:
    """One step's loss and norm of the gradient equal those of `loss` on `model`."""
    metrics = trainer.train(make_batch(sequences))
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    norm = torch.stack([gradient.norm() for gradient in gradients if gradient is not None]).norm()
    assert metrics["loss"] == pytest.approx(float(loss), abs=2e-5)
    assert metrics["grad_norm"] == pytest.approx(float(norm), rel=1e-4)


def test_entropy_and_kl_terms_reach_the_gradient(
    make_trainer: Make, hf_folder: Path, models: Any, tmp_path: Path
) -> None:
    """The reference is another model than the policy: the run resumes from a checkpoint of its own."""
    first = make_trainer(save=str(tmp_path), lr=5e-3, lr_warmup_iters=0)
    first.load()
    first.train(make_batch(round_sequences(3)))
    first.save(0, {})
    moved = {key: tensor.clone() for key, tensor in first.named_hf_tensors()}
    flags = {"use_kl_loss": True, "kl_loss_coef": 0.2, "kl_loss_type": "k3", "entropy_coef": 0.05}
    trainer = make_trainer(load=str(tmp_path), lr=5e-3, lr_warmup_iters=0, **flags)
    assert trainer.load().step == 0
    model, reference = load_hf_model(hf_folder), load_hf_model(hf_folder)
    model.load_state_dict(moved, strict=False)
    sequences = round_sequences(4)
    total = torch.zeros(())
    for sequence in sequences:
        log_probs = reference_log_probs(model, sequence)
        with torch.no_grad():
            base = reference_log_probs(reference, sequence)
        tokens = torch.as_tensor(sequence.tokens)[None]
        first_row = sequence.total_length - sequence.response_length - 1
        rows = model(tokens).logits[0, first_row:-1].log_softmax(-1)
        entropy = -(rows.exp() * rows).sum(-1)
        r = log_probs - base
        term = (
            -(log_probs - log_probs.detach()).exp() * sequence.advantage + 0.2 * ((-r).exp() - 1 + r) - 0.05 * entropy
        )
        trained = masked(sequence)
        total = total + term[trained].mean() / len(sequences)
    assert (
        float((reference_log_probs(model, sequences[0]) - reference_log_probs(reference, sequences[0])).abs().max())
        > 0.01
    )
    gradient_after(trainer, model, sequences, total)


def whitened(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.sqrt(np.var(values, ddof=1) + 1e-8))


def test_reinforce_plus_plus_whitens_returns_of_the_whole_round(make_trainer: Make, hf_folder: Path) -> None:
    trainer, model = make_trainer(**ALGORITHMS["reinforce++"] | {"kl_coef": 0.0}), load_hf_model(hf_folder)
    trainer.load()
    sequences = round_sequences(5)
    returns: list[list[float]] = []
    for sequence in sequences:
        last = masked(sequence)[-1]
        returns.append(
            [0.99 ** (last - t) * sequence.advantage if t <= last else 0.0 for t in range(sequence.response_length)]
        )
    mean, deviation = whitened([r[t] for r, s in zip(returns, sequences, strict=True) for t in masked(s)])
    total = torch.zeros(())
    for sequence, own in zip(sequences, returns, strict=True):
        log_probs, trained = reference_log_probs(model, sequence), masked(sequence)
        advantages = torch.tensor([(value - mean) / deviation for value in own])
        total = total + (-(log_probs - log_probs.detach()).exp() * advantages)[trained].mean() / len(sequences)
    gradient_after(trainer, model, sequences, total)


def test_score_centering_equals_the_loops(make_trainer: Make, hf_folder: Path) -> None:
    trainer, model = make_trainer(**ALGORITHMS["score-centering"]), load_hf_model(hf_folder)
    trainer.load()
    sequences = round_sequences(11)
    tokens = sum(len(masked(sequence)) for sequence in sequences)
    total = torch.zeros(())
    for sequence in sequences:
        first_row = sequence.total_length - sequence.response_length - 1
        rows = model(torch.as_tensor(sequence.tokens)[None]).logits[0, first_row:-1].log_softmax(-1)
        for t in masked(sequence):
            log_prob = rows[t, int(sequence.tokens[first_row + 1 + t])]
            weight = min(math.exp(float(log_prob) - float(sequence.rollout_log_probs[t])), 2.0)
            assert sequence.rollout_topk_token_ids is not None and sequence.rollout_topk_log_probs is not None
            head = rows[t, torch.as_tensor(sequence.rollout_topk_token_ids[t], dtype=torch.int64)]
            p, q = head.detach().double().exp(), np.exp(sequence.rollout_topk_log_probs[t].astype(np.float64))
            rho = max(1 - q.sum(), 1e-6) / max(1 - float(p.sum()), 1e-6)
            alpha = rho * min(1 / rho, 2.0)
            centre = sum(
                (qv * min(float(pv) / qv, 2.0) - alpha * float(pv)) * h for pv, qv, h in zip(p, q, head, strict=True)
            )
            total = total + sequence.advantage * (centre - weight * log_prob) / tokens
    gradient_after(trainer, model, sequences, total)
    sequences[3].rollout_topk_token_ids = None
    with pytest.raises(TrainBatchError, match="sample 103 came without the sampler's likeliest tokens"):
        trainer.train(make_batch(sequences))


def test_a_teacher_may_be_a_run_of_its_own(make_trainer: Make, hf_folder: Path, tmp_path: Path) -> None:
    """Its checkpoint has an optimizer's state, too, of which the weights alone are read."""
    trained = make_trainer(save=str(tmp_path), lr_warmup_iters=0)
    trained.load()
    trained.train(make_batch(round_sequences(0)))
    trained.save(0, {})
    sequences = round_sequences(1)
    wanted = trained.log_probs(sequences)
    flags = ALGORITHMS["distillation"] | {"opd_teacher_load": str(tmp_path)}
    trainer = make_trainer(**flags)
    trainer.load()
    own = trainer.log_probs(sequences)
    pairs = [(a - b)[masked(s)] for a, b, s in zip(own, wanted, sequences, strict=True)]
    expected = float(np.concatenate(pairs).mean())
    assert trainer.train(make_batch(sequences))["opd_reverse_kl"] == pytest.approx(expected, abs=1e-6)


def test_distillation_subtracts_the_reverse_kl(make_trainer: Make, hf_folder: Path, models: Any) -> None:
    flags = with_models(ALGORITHMS["distillation"], models[1], models[2])
    trainer, model, teacher = make_trainer(**flags), load_hf_model(hf_folder), load_hf_model(models[2])
    trainer.load()
    sequences = round_sequences(6)
    total = torch.zeros(())
    gaps: list[float] = []
    for sequence in sequences:
        log_probs, trained = reference_log_probs(model, sequence), masked(sequence)
        with torch.no_grad():
            gap = log_probs - reference_log_probs(teacher, sequence)
        gaps += gap[trained].tolist()
        term = -(log_probs - log_probs.detach()).exp() * (sequence.advantage - 0.5 * gap)
        total = total + term[trained].mean() / len(sequences)
    gradient_after(trainer, model, sequences, total)
    expected = dict(load_hf_model(hf_folder).named_parameters())
    trainer = make_trainer(**flags)
    trainer.load()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in trainer.named_hf_tensors())
    assert trainer.train(make_batch(sequences))["opd_reverse_kl"] == pytest.approx(np.mean(gaps), abs=1e-5)


def test_supervised_loss_is_the_cross_entropy(make_trainer: Make, hf_folder: Path) -> None:
    trainer, model = make_trainer(**ALGORITHMS["sft"]), load_hf_model(hf_folder)
    trainer.load()
    sequences = round_sequences(7)
    scores, targets = [], []
    for sequence in sequences:
        tokens = torch.as_tensor(sequence.tokens)
        begin = sequence.total_length - sequence.response_length
        chosen = [begin + t for t in masked(sequence)]
        scores.append(model(tokens[None]).logits[0, [at - 1 for at in chosen]])
        targets.append(tokens[chosen])
    gradient_after(trainer, model, sequences, torch.nn.functional.cross_entropy(torch.cat(scores), torch.cat(targets)))


class ReferenceCritic(torch.nn.Module):
    """Transformers' body with a head of one output that starts at zero."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.body = load_hf_model(folder).model
        self.head = torch.nn.Linear(64, 1, bias=False)
        torch.nn.init.zeros_(self.head.weight)

    def values(self, sequence: TrainSequence) -> Tensor:
        hidden = self.body(torch.as_tensor(sequence.tokens)[None]).last_hidden_state[0]
        return self.head(hidden)[sequence.total_length - sequence.response_length - 1 : -1, 0]


def test_ppo_and_its_critic_equal_plain_torch(make_trainer: Make, hf_folder: Path) -> None:
    """Three rounds, so that values differ from zero and the value clip binds."""
    flags = {"advantage_estimator": "ppo", "lambd": 0.9, "gamma": 0.97, "critic_lr": 5e-3, "value_clip": 0.05}
    trainer = make_trainer(lr=1e-3, lr_warmup_iters=0, weight_decay=0.0, clip_grad=1e9, **flags)
    trainer.load()
    model, critic = load_hf_model(hf_folder), ReferenceCritic(hf_folder)
    actor_steps = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, eps=1e-8)
    critic_steps = torch.optim.AdamW(critic.parameters(), lr=5e-3, weight_decay=0.0, eps=1e-8)
    clipped = 0.0
    for round_id in range(3):
        sequences = round_sequences(8 + round_id)
        metrics = trainer.train(make_batch(sequences, steps=1))
        with torch.no_grad():
            old_values = [critic.values(sequence) for sequence in sequences]
        value_loss, policy_loss = torch.zeros(()), torch.zeros(())
        for sequence, old in zip(sequences, old_values, strict=True):
            count, trained = sequence.response_length, masked(sequence)
            v = [*old.tolist(), 0.0]
            rewards = [0.0] * (count - 1) + [sequence.advantage]
            deltas = [rewards[t] + 0.97 * v[t + 1] - v[t] for t in range(count)]
            advantages = torch.tensor(
                [sum((0.97 * 0.9) ** (k - t) * deltas[k] for k in range(t, count)) for t in range(count)]
            )
            values, returns = critic.values(sequence), advantages + old
            limited = old + (values - old).clamp(-0.05, 0.05)
            error = torch.maximum((values - returns) ** 2, (limited - returns) ** 2)
            value_loss = value_loss + error[trained].mean() / len(sequences)
            log_probs = reference_log_probs(model, sequence)
            term = -(log_probs - log_probs.detach()).exp() * advantages
            policy_loss = policy_loss + term[trained].mean() / len(sequences)
        assert metrics["critic-value_loss"] == pytest.approx(float(value_loss), rel=2e-3, abs=1e-4)
        assert metrics["loss"] == pytest.approx(float(policy_loss), rel=2e-3, abs=2e-4)
        clipped += metrics["critic-value_clipfrac"]
        for optimizer, loss in ((critic_steps, value_loss), (actor_steps, policy_loss)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert metrics["critic-lr"] == pytest.approx(5e-3) and metrics["lr"] == pytest.approx(1e-3)
    for key, tensor in trainer.named_hf_tensors():
        torch.testing.assert_close(tensor, dict(model.named_parameters())[key].detach(), rtol=0, atol=1e-3)


def test_critic_only_rounds_leave_the_policy_alone_and_a_run_resumes_exactly(
    make_trainer: Make, hf_folder: Path, tmp_path: Path
) -> None:
    flags = {"advantage_estimator": "ppo", "num_critic_only_steps": 1, "save": str(tmp_path), "lr_warmup_iters": 0}
    trainer = make_trainer(**flags)
    trainer.load()
    expected = dict(load_hf_model(hf_folder).named_parameters())
    metrics = trainer.train(make_batch(round_sequences(0), round_id=0))
    assert "critic-value_loss" in metrics and "pg_loss" not in metrics
    assert all(torch.equal(tensor, expected[key]) for key, tensor in trainer.named_hf_tensors())
    trainer.save(0, {})
    later = [trainer.train(make_batch(round_sequences(i), steps=2, round_id=i)) for i in (1, 2)]
    assert "pg_loss" in later[0]
    resumed = make_trainer(**flags, load=str(tmp_path))
    assert resumed.load().step == 0
    assert [resumed.train(make_batch(round_sequences(i), steps=2, round_id=i)) for i in (1, 2)] == later
    # A critic's checkpoint starts another run's critic, head included.
    other = make_trainer(advantage_estimator="ppo", critic_load=str(tmp_path / "critic"))
    other.load()
    assert other.train(make_batch(round_sequences(1), round_id=1))["values"] == pytest.approx(later[0]["values"])
    assert later[0]["values"] != 0.0


def test_the_reference_follows_at_its_interval(make_trainer: Make, hf_folder: Path) -> None:
    trainer = make_trainer(
        use_kl_loss=True, kl_loss_coef=0.1, kl_loss_type="k2", ref_update_interval=2, lr_warmup_iters=0
    )
    trainer.load()
    found = [trainer.train(make_batch(round_sequences(i), round_id=i))["kl_loss"] for i in range(4)]
    assert found[0] == pytest.approx(0, abs=1e-9)  # the policy is the reference still
    assert found[1] > 1e-6
    assert found[2] == pytest.approx(0, abs=1e-9)  # copied after the second round
    assert found[3] > 1e-6


def test_a_reference_that_followed_is_there_after_a_resumption(make_trainer: Make, tmp_path: Path) -> None:
    flags = {"use_kl_loss": True, "kl_loss_coef": 0.1, "ref_update_interval": 2, "save": str(tmp_path)}
    trainer = make_trainer(lr_warmup_iters=0, **flags)
    trainer.load()
    for round_id in range(3):
        trainer.train(make_batch(round_sequences(round_id), round_id=round_id))
    trainer.save(2, {})
    expected = trainer.train(make_batch(round_sequences(3), round_id=3))
    resumed = make_trainer(lr_warmup_iters=0, load=str(tmp_path), **flags)
    assert resumed.load().step == 2
    assert resumed.train(make_batch(round_sequences(3), round_id=3)) == expected
    shutil.rmtree(tmp_path / "reference")
    with pytest.raises(CheckpointError, match=r"reference/iter_0000002 holds no Megatron checkpoint"):
        make_trainer(load=str(tmp_path), **flags).load()
