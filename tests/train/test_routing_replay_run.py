"""A short real run of a mixture of experts: the trainer replays the experts that SGLang reported for every token."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from .tiny_run import Experiment, slime

pytestmark = [pytest.mark.runtime, pytest.mark.slow]


@pytest.fixture(scope="module")
def experts(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3-MoE with the tiny experiment's tokenizer."""
    import transformers

    folder: Path = tmp_path_factory.mktemp("experts")
    dense = json.loads((experiment.root / "hf" / "config.json").read_text(encoding="utf-8"))
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=dense["vocab_size"],
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=dense["max_position_embeddings"],
        tie_word_embeddings=False,
        initializer_range=0.2,
        moe_intermediate_size=48,
        num_experts_per_tok=2,
        num_experts=8,
        norm_topk_prob=True,
        bos_token_id=dense["bos_token_id"],
        eos_token_id=dense["eos_token_id"],
        pad_token_id=dense["pad_token_id"],
    )
    transformers.Qwen3MoeForCausalLM(config).to(torch.float32).save_pretrained(folder)
    for path in (experiment.root / "hf").iterdir():
        if not (folder / path.name).exists() and path.suffix != ".safetensors" and not path.name.startswith("."):
            shutil.copy(path, folder)
    return folder


def test_the_samplers_experts_reach_the_trainer(experiment: Experiment, experts: Path, tmp_path: Path) -> None:
    """Two steps a round at a high rate, so that routers change their mind between them."""
    done = slime(
        *experiment.words(
            tmp_path,
            hf_checkpoint=experts,
            ref_load=experts,
            num_rollout=2,
            num_steps_per_rollout=2,
            save_interval=None,
            rm_type="random",
            lr="3e-3",
            use_rollout_routing_replay=True,
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    trained = [one for one in rounds if "train/grad_norm" in one]
    assert len(trained) == 2
    for one in trained:
        assert one["train/train_rollout_logprob_abs_diff_max"] < 1e-4 and one["train/grad_norm"] > 0


def test_a_dense_model_is_refused(experiment: Experiment, tmp_path: Path) -> None:
    done = slime(*experiment.words(tmp_path, use_rollout_routing_replay=True))
    assert done.returncode == 2 and "describes a model without experts" in done.stderr
