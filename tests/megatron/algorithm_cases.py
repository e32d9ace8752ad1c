"""The algorithms as the trainer's tests run them, and a body for each data-parallel process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slime.data.train_batch import TrainSequence

from .megatron_cases import VOCABULARY, make_batch, make_config, make_sequences

MIS = "slime.algorithms.mismatch.mismatch_weights"
DR_GRPO = "slime.algorithms.reduction.constant_length_weights"
WHITENED: dict[str, Any] = {"normalize_advantages": True}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "grpo": {"use_kl_loss": True, "kl_loss_coef": 0.1, "kl_loss_type": "low_var_kl", "eps_clip_c": 3.0},
    "gspo": {"advantage_estimator": "gspo", "eps_clip": 0.01, "eps_clip_high": 0.02, "entropy_coef": 0.01},
    "cispo": {"advantage_estimator": "cispo", "eps_clip": 1.0, "eps_clip_high": 1.5, "use_opsm": True},
    "rloo": {"advantage_estimator": "rloo", "pg_loss_type": "reinforce", "use_tis": True},
    "reinforce++": {"advantage_estimator": "reinforce_plus_plus", "kl_coef": 0.05, "gamma": 0.99, **WHITENED},
    "reinforce++-baseline": {"advantage_estimator": "reinforce_plus_plus_baseline", "kl_coef": 0.05, **WHITENED},
    "ppo": {"advantage_estimator": "ppo", "lambd": 0.95, "critic_lr": 2e-3, "calculate_per_token_loss": True},
    "dr-grpo": {"disable_grpo_std_normalization": True, "custom_pg_loss_reducer_function_path": DR_GRPO},
    "mis": {
        "use_tis": True, "custom_tis_function_path": MIS, "tis_level": "geometric", "tis_batch_normalize": True,
        "use_rs": True, "rs_level": "token", "rs_upper_bound": 9.0, "rs_lower_bound": 0.05,
    },
    "score-centering": {
        "use_score_centering": True, "score_centering_top_k": 5, "use_tis": True, "calculate_per_token_loss": True,
    },
    "distillation": {"use_opd": True, "opd_type": "megatron", "opd_kl_coef": 0.5},
    "sft": {"loss_type": "sft_loss", "calculate_per_token_loss": True},
}  # fmt: skip


def with_models(flags: dict[str, Any], reference: Path, teacher: Path) -> dict[str, Any]:
    """The flags with the checkpoints that they need."""
    needs_ref = flags.get("use_kl_loss") or flags.get("kl_coef")
    return {
        **flags,
        **({"ref_load": str(reference)} if needs_ref else {}),
        **({"opd_teacher_load": str(teacher)} if flags.get("use_opd") else {}),
    }


def round_sequences(round_id: int, count: int = 16) -> list[TrainSequence]:
    """Samples of one round; log-probs of the sampler lie near those of the model, so that corrections keep some."""
    sequences, random = make_sequences(count, seed=20 + round_id), np.random.default_rng(round_id)
    for sequence in sequences:
        sequence.rollout_log_probs = sequence.rollout_log_probs / np.float32(2)
        scores = random.normal(size=(sequence.response_length, VOCABULARY)) * 2
        log_probs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        ids = np.argsort(-log_probs, axis=1)[:, :5].astype(np.int32)
        sequence.rollout_topk_token_ids = ids
        sequence.rollout_topk_log_probs = np.take_along_axis(log_probs, ids, axis=1).astype(np.float32)
    return sequences


def run_algorithms(
    rank: int, ranks: int, ports: Sequence[int], models: tuple[Path, Path, Path], out: Path, micro_batch: int
) -> None:
    """Body of one data-parallel process: two rounds of two steps for every algorithm; results go to `out`."""
    from slime.megatron.trainer import MegatronTrainer

    torch.set_num_threads(1)
    actor, reference, teacher = models
    results: dict[str, Any] = {}
    for port, (name, flags) in zip(ports, ALGORITHMS.items(), strict=True):
        config = make_config(actor, actor_num_gpus_per_node=ranks, lr=2e-3, **with_models(flags, reference, teacher))
        trainer = MegatronTrainer(config, rank, ranks, "127.0.0.1", port)
        trainer.load()
        metrics = [
            trainer.train(make_batch(round_sequences(i), 2, micro_batch, rank, ranks, round_id=i)) for i in range(2)
        ]
        weights = {key: tensor.clone() for key, tensor in trainer.named_hf_tensors()}
        results[name] = {"metrics": metrics, "weights": weights}
        trainer.close()
    torch.save(results, out / f"{rank}-of-{ranks}-by-{micro_batch}.pt")
