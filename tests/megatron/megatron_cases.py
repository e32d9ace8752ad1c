"""Material of the trainer's tests: models, batches, and a reference of the training step without Megatron."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from slime.config import Config
from slime.config import make_config as slime_config
from slime.data.train_batch import TrainBatch, TrainSequence, TrainStep

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VOCABULARY = 50


def make_hf_model(folder: Path, family: str = "qwen3", seed: int = 0, **changes: Any) -> Path:
    """Save a random model of `family`; its head size differs from hidden / heads, so that mixed-up sizes show."""
    import transformers

    torch.manual_seed(seed)
    values: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": 1,
        "pad_token_id": 0,
        **({"head_dim": 24} if family == "qwen3" else {}),
        **changes,
    }
    config_class, model_class = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    }[family]
    model = model_class(config_class(**values))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return folder


def load_hf_model(folder: Path) -> PreTrainedModel:
    """The saved model in float32, by transformers."""
    import transformers

    model: PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model


def make_config(hf: Path, **flags: Any) -> Config:
    """A resolved configuration that trains `hf` on the CPU."""
    values: dict[str, Any] = {
        "hf_checkpoint": str(hf),
        "ref_load": str(hf),
        "device": "cpu",
        "prompt_data": "train.jsonl",
        "input_key": "prompt",
        "label_key": "label",
        "rm_type": "math",
        "num_rollout": 4,
        "rollout_batch_size": 8,
        "n_samples_per_prompt": 4,
        "rollout_max_response_len": 8,
        "rollout_max_prompt_len": 16,
        "actor_num_gpus_per_node": 1,
        "colocate": True,
        "lr": 1e-3,
        "lr_warmup_iters": 4,
        "weight_decay": 0.1,
        "eps_clip": 0.2,
        "eps_clip_high": 0.28,
        **flags,
    }
    return slime_config(**values)


def make_sequences(count: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[TrainSequence]:
    """Samples of mixed lengths, some tokens masked, with the sampler's log-probs near the values of a uniform model."""
    random = np.random.default_rng(seed)
    sequences = []
    for index in range(count):
        prompt, response = int(random.integers(1, 9)), int(random.integers(1, 12))
        mask = (random.random(response) > 0.2).astype(np.float32)
        mask[0] = 1.0
        sequences.append(
            TrainSequence(
                # Without the padding id: transformers gives it no gradient, and its embedding is zero.
                tokens=random.integers(2, vocabulary, prompt + response),
                response_length=response,
                loss_mask=mask,
                advantage=float(random.normal()),
                raw_reward=float(index % 2),
                rollout_log_probs=random.uniform(-5, -2, response).astype(np.float32),
                rollout_id=index,
                rollout_mask_sum=int(mask.sum()),
                sample_index=100 + index,
            )
        )
    return sequences


def make_batch(
    sequences: Sequence[TrainSequence],
    steps: int = 1,
    micro_batch: int = 4,
    rank: int = 0,
    ranks: int = 1,
    round_id: int = 0,
) -> TrainBatch:
    """The share of data-parallel `rank`: samples rank, rank + ranks, ...; `steps` consecutive optimizer steps."""
    own = list(sequences[rank::ranks])
    per_step, whole = len(own) // steps, len(sequences) // steps
    plan = []
    for step in range(steps):
        indices = list(range(step * per_step, (step + 1) * per_step))
        members = sequences[step * whole : (step + 1) * whole]
        plan.append(
            TrainStep(
                micro_batch_indices=[indices[i : i + micro_batch] for i in range(0, len(indices), micro_batch)],
                num_rollouts=len(members),
                num_tokens=int(sum(member.loss_mask.sum() for member in members)),
            )
        )
    return TrainBatch(round_id=round_id, dp_rank=rank, dp_size=ranks, sequences=own, steps=plan)


def reference_log_probs(model: PreTrainedModel, sequence: TrainSequence, temperature: float = 1.0) -> torch.Tensor:
    """Log-probs of one sequence's response, alone in its own forward pass; differentiable, [R]."""
    tokens = torch.as_tensor(sequence.tokens)[None]
    scores = (model(tokens).logits[0].float() / temperature).log_softmax(-1)
    first = sequence.total_length - sequence.response_length
    return torch.stack([scores[at - 1, tokens[0, at]] for at in range(first, sequence.total_length)])


def reference_loss(
    model: PreTrainedModel,
    sequences: Sequence[TrainSequence],
    old: Sequence[torch.Tensor] | None = None,
    clip: tuple[float, float] = (0.2, 0.28),
) -> torch.Tensor:
    """GRPO's loss as its definition reads: mean over samples of the mean over their trained tokens."""
    total = torch.zeros(())
    for index, sequence in enumerate(sequences):
        log_probs = reference_log_probs(model, sequence)
        before = log_probs.detach() if old is None else old[index]
        ratio = (log_probs - before).exp()
        clipped = ratio.clamp(1 - clip[0], 1 + clip[1])
        per_token = -torch.minimum(ratio * sequence.advantage, clipped * sequence.advantage)
        mask = torch.as_tensor(sequence.loss_mask)
        total = total + (per_token * mask).sum() / mask.sum() / len(sequences)
    return total


def reference_optimizer(model: PreTrainedModel, lr: float = 1e-3, weight_decay: float = 0.1) -> torch.optim.AdamW:
    """AdamW with decay on matrices alone, as the trainer promises."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.999), eps=1e-8)


def train_one_rank(rank: int, ranks: int, port: int, hf: Path, out: Path, flags: dict[str, Any]) -> None:
    """Body of one process: two rounds, and a broken one; weights, metrics, the error and log-probs go to `out`.

    Args:
        flags: of the run, for instance its parallel sizes.
    """
    from slime.config.layout import train_rank
    from slime.megatron.step import NonFiniteStepError
    from slime.megatron.trainer import MegatronTrainer

    torch.set_num_threads(1)
    config = make_config(hf, actor_num_gpus_per_node=ranks, save=str(out / "saved"), **flags)
    data, copies = train_rank(config, rank).data, config.data_parallel_size
    trainer = MegatronTrainer(config, rank, ranks, "127.0.0.1", port)
    trainer.load()
    log_probs = [torch.from_numpy(one) for one in trainer.log_probs(make_sequences(5, seed=9))]
    # Two optimizer steps in the second round, so that old log-probs are computed before them.
    metrics = [
        trainer.train(make_batch(make_sequences(16, seed), steps, 4, data, copies)) for seed, steps in ((0, 1), (1, 2))
    ]
    trainer.save(1)
    error = ""
    sequences = make_sequences(16, seed=3)
    sequences[1].advantage = float("inf")  # on the second copy of the model when there are two
    try:
        trainer.train(make_batch(sequences, 1, 4, data, copies))
    except NonFiniteStepError as refused:
        error = str(refused)
    weights = {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}
    torch.save(
        {"metrics": metrics, "weights": weights, "error": error, "log_probs": log_probs},
        out / f"rank{rank}-of-{ranks}.pt",
    )
    trainer.close()
