"""The estimate of memory: against Hugging Face's own models, SGLang's own cache pools, and arithmetic by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from slime.config import REGISTRY
from slime.experiment import Catalog
from slime.experiment.facts_schema import ModelFile
from slime.experiment.memory import Phase, count_text, size_text

needs_runtime = pytest.mark.skipif(find_spec("sglang") is None, reason="the runtime is not installed: make runtime")
CELLS = {
    "tiny": {"kind": "mha", "dtype": "float32", "heads": 2, "head_dim": 32, "layers": 2},
    "glm-4-9b": {"kind": "mha", "dtype": "bfloat16", "heads": 1, "head_dim": 128, "layers": 40},
    "glm-4.7": {"kind": "mha", "dtype": "bfloat16", "heads": 1, "head_dim": 128, "layers": 92},
    "qwen3.8-27b": {"kind": "mha", "dtype": "bfloat16", "heads": 2, "head_dim": 256, "layers": 16},
    "glm-4.7-flash": {"kind": "mla", "dtype": "bfloat16", "rank": 512, "rope": 64, "layers": 47},
    "deepseek-r1": {"kind": "mla", "dtype": "fp8", "rank": 512, "rope": 64, "layers": 61},
    "glm-5.3": {"kind": "dsa", "dtype": "fp8", "rank": 512, "rope": 64, "layers": 78, "index": 128, "dim": 656},
}
"""What one GPU of each recipe's engine keeps of a token, in SGLang's own terms: heads after tensor parallelism."""
POOLS = """
import json, sys
import torch
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape
from sglang.srt.mem_cache import memory_pool as pools
from sglang.srt.runtime_context import get_parallel

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "fp8": torch.float8_e4m3fn}

def pool(size, q, dtype):
    if q["kind"] == "mha":
        return pools.MHATokenToKVPool(size, 1, dtype, q["heads"], q["head_dim"], q["layers"], "cpu", False)
    if q["kind"] == "mla":
        return pools.MLATokenToKVPool(size, 1, dtype, q["rank"], q["rope"], q["layers"], "cpu", False)
    rest = (q["layers"], "cpu", q["index"], False, q["dim"])
    return pools.DSATokenToKVPool(size, 64, q["rank"], dtype, q["rope"], *rest, skip_topk_layers=q["skip"])

def size(*arguments):
    found = pool(*arguments).get_kv_size_bytes()
    return sum(found) if isinstance(found, tuple) else found

def answer(q):
    dtype = TYPES[q.pop("dtype")]
    if q["kind"] == "state":
        shape = Mamba2StateShape.create(**q["shape"])
        types = Mamba2StateDType(conv=torch.bfloat16, temporal=dtype)
        return Mamba2CacheParams(shape=shape, dtype=types, layers=list(range(q["layers"]))).mamba_cache_per_req
    return (size(192, q, dtype) - size(128, q, dtype)) / 64

with get_parallel().override(attn_dcp_size=1, attn_dcp_rank=0):
    print(json.dumps([answer(q) for q in json.load(sys.stdin)]))
"""


def _phases(catalog: Catalog, **choices: Any) -> dict[str, Phase]:
    read = catalog.sanitise(choices)
    assert not read.ignored
    return {phase.id: phase for phase in catalog.memory(read.state)}


def _amounts(phase: Phase, row_id: str) -> list[int | None]:
    row = next((row for row in phase.rows if row.id == row_id), None)
    return [] if row is None else [None if cell is None else cell.amount for cell in row.cells]


def _hf_config(model: ModelFile) -> tuple[Any, Any]:
    """Transformers' class and configuration of a model file's architecture."""
    import transformers as hf
    from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    values: dict[str, Any] = {
        "vocab_size": model.vocab, "hidden_size": model.hidden, "intermediate_size": model.ffn,
        "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
        "tie_word_embeddings": model.tied_embeddings,
    }  # fmt: skip
    moe, mla = model.moe, model.mla
    if mla is None:
        values |= {"num_key_value_heads": model.kv_groups, "head_dim": model.head_dim}
    else:
        values |= {"num_key_value_heads": model.heads, "q_lora_rank": mla.q_lora, "kv_lora_rank": mla.kv_lora}
        values |= {"qk_nope_head_dim": mla.qk_nope, "qk_rope_head_dim": mla.qk_rope, "v_head_dim": mla.v_head}
    if moe is not None:
        values |= {"n_routed_experts": moe.experts, "num_experts_per_tok": moe.topk, "n_group": moe.groups or 1}
        values |= {"moe_intermediate_size": moe.expert_ffn, "n_shared_experts": moe.shared_ffn // moe.expert_ffn}
        values |= {"first_k_dense_replace": moe.dense_layers, "topk_group": moe.topk_groups or 1}
        values |= {"mlp_layer_types": ["dense"] * moe.dense_layers + ["sparse"] * moe.moe_layers}
    if model.dsa is not None:
        values |= {"index_n_heads": model.dsa.index_heads, "index_head_dim": model.dsa.index_dim}
        values |= {"index_topk_freq": model.dsa.index_frequency, "index_skip_topk_offset": model.dsa.index_offset}
    if model.hybrid is not None:
        linear = model.hybrid
        values |= {"linear_num_key_heads": linear.key_heads, "linear_num_value_heads": linear.value_heads}
        values |= {"linear_key_head_dim": linear.key_dim, "linear_value_head_dim": linear.value_dim}
        values |= {"linear_conv_kernel_dim": linear.conv_kernel}
    if model.hf_model_type in ("glm4", "glm4_moe"):
        values |= {"attention_bias": model.qkv_bias}
    if model.hf_model_type == "glm4_moe":
        values |= {"use_qk_norm": model.qk_norm}
    classes = {
        "glm4": (hf.Glm4ForCausalLM, hf.Glm4Config), "glm4_moe": (hf.Glm4MoeForCausalLM, hf.Glm4MoeConfig),
        "glm4_moe_lite": (hf.Glm4MoeLiteForCausalLM, hf.Glm4MoeLiteConfig),
        "glm_moe_dsa": (hf.GlmMoeDsaForCausalLM, hf.GlmMoeDsaConfig),
        "deepseek_v3": (hf.DeepseekV3ForCausalLM, hf.DeepseekV3Config),
        "qwen3_5": (Qwen3_5ForCausalLM, Qwen3_5TextConfig), "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config),
    }  # fmt: skip
    model_class, config_class = classes[model.hf_model_type]
    return model_class, config_class(**values)


@needs_runtime
@pytest.mark.runtime
@pytest.mark.parametrize("model_id", list(CELLS))
def test_parameters_are_those_of_the_published_architecture(catalog: Catalog, model_id: str) -> None:
    """Transformers builds the whole model without storage; every parameter is counted, exactly."""
    import torch

    model_class, config = _hf_config(catalog.facts.models[catalog.facts.launch[model_id].model])
    with torch.device("meta"):
        total = sum(parameter.numel() for parameter in model_class(config).parameters())
    assert _amounts(_phases(catalog, model=model_id)["disk"], "parameters") == [total]


@needs_runtime
@pytest.mark.runtime
def test_cache_bytes_are_those_of_sglang_s_pools(catalog: Catalog) -> None:
    """SGLang's own pools, built on this machine at two sizes, give the bytes of a token; its parameters, of a state."""
    from slime.sglang.launch import EngineSpec, server_environment

    computing = [number < 3 or (number - 2) % 4 == 0 for number in range(78)]
    cells = {key: {**cell, **({"skip": [not one for one in computing]} if cell["kind"] == "dsa" else {})}
             for key, cell in CELLS.items()}  # fmt: skip
    shape = {"tp_world_size": 2, "intermediate_size": 48 * 128, "n_groups": 16, "num_heads": 48}
    shape |= {"head_dim": 128, "state_size": 128, "conv_kernel": 4}
    asked = [*cells.values(), *({"kind": "state", "dtype": one, "shape": shape, "layers": 48} for one in
                                ("float32", "bfloat16"))]  # fmt: skip
    environment = server_environment(EngineSpec("model", device="cpu"))
    done = subprocess.run(
        [sys.executable, "-c", POOLS], input=json.dumps(asked), capture_output=True, text=True, env=environment,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.strip().split("\n")[-1])
    ours = [
        _amounts(
            _phases(catalog, model=model, kv="fp8" if cell["dtype"] == "fp8" else "auto")["generation"], "kv_token"
        )
        for model, cell in cells.items()
    ]
    assert [[one] for one in answers[: len(cells)]] == ours
    for dtype, answer in zip(("float32", "bfloat16"), answers[len(cells) :], strict=True):
        state = _phases(catalog, model="qwen3.8-27b", mambaDtype=dtype, concurrency=10)["generation"]
        assert _amounts(state, "state") == [10 * answer]


def test_the_tiny_recipe_by_hand(catalog: Catalog) -> None:
    """426,752 parameters in float32, gradients in float32, two moments of Adam; 2 KV heads of 32 in 2 layers."""
    phases = _phases(catalog, model="tiny")
    training = phases["training"]
    assert [rank.en for rank in training.ranks] == ["each rank"]
    assert _amounts(training, "weights") == _amounts(training, "gradients") == [4 * 426_752]
    assert _amounts(training, "optimizer") == [8 * 426_752]
    assert _amounts(phases["generation"], "kv_token") == [2 * 2 * 32 * 4 * 2]
    assert _amounts(phases["generation"], "kv") == [1024 * 8 * 512]
    assert _amounts(phases["host"], "samples") == [512 * 8 * 9]
    assert _amounts(phases["disk"], "checkpoint") == [12 * 426_752]
    assert _amounts(phases["disk"], "saves") == [7]


def test_a_dense_recipe_by_hand(catalog: Catalog) -> None:
    """GLM-4-9B: TP 2 halves the matrices and the padded vocabulary, norms and nothing else stay whole; ZeRO over 4."""
    q, kv, hidden, ffn, vocab = 32 * 128, 2 * 128, 4096, 13696, 151552
    layer = (hidden * (q + 2 * kv) + (q + 2 * kv) + q * hidden + 3 * hidden * ffn) // 2 + 4 * hidden
    rank = 40 * layer + 2 * (vocab * hidden // 2) + hidden
    training = _phases(catalog, model="glm-4-9b")["training"]
    assert _amounts(training, "parameters") == [rank]
    assert _amounts(training, "weights") == [2 * rank] and _amounts(training, "gradients") == [4 * rank]
    assert _amounts(training, "optimizer") == [12 * -(-rank // 4)]
    assert training.totals is not None and training.totals[0].amount == sum(
        cell.amount for row in training.rows if row.unit == "bytes" and (cell := row.cells[0]) is not None
    )


def test_choices_move_memory_where_they_say(catalog: Catalog) -> None:
    kept, moved = _phases(catalog, cpuAdam=False), _phases(catalog, cpuAdam=True)
    assert _amounts(kept["training"], "optimizer") and not _amounts(moved["training"], "optimizer")
    assert _amounts(moved["host"], "adam") and not _amounts(kept["host"], "adam")
    whole, again = _phases(catalog, recompute=False), _phases(catalog, recompute=True)
    assert _amounts(whole["training"], "activations")[0] > 5 * _amounts(again["training"], "checkpoints")[0]  # type: ignore[operator]
    assert not _amounts(_phases(catalog, layout="separate")["host"], "offload")
    half = [
        _amounts(_phases(catalog, model="qwen3.8-27b", kv=kv)["generation"], "kv_token")[0] for kv in ("auto", "fp8")
    ]
    assert half[0] == 2 * half[1]  # type: ignore[operator]
    sizes = [_amounts(_phases(catalog, model="glm-4.7", precision=one)["generation"], "weights")[0]
             for one in ("bf16", "fp8", "int4")]  # fmt: skip
    assert sizes == sorted(sizes, reverse=True)  # type: ignore[type-var]
    pd = _phases(catalog, pd=True, ib="mlx5_0", layout="separate", rollout=16)["generation"]
    assert [rank.en for rank in pd.ranks] == ["prefill", "decode"] and _amounts(pd, "kv")[0] is None
    assert [rank.en for rank in _phases(catalog, layout="separate")["sync"].ranks] == ["trainer", "engine"]


def test_the_transfer_buffer_is_the_runtime_s_default(catalog: Catalog) -> None:
    buffer = _amounts(_phases(catalog)["sync"], "bucket")
    assert buffer == [REGISTRY["--update-weight-buffer-size"].default]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1949, "1.9 kB"), (1950, "2.0 kB"), (999_950, "1000.0 kB"),
     (29_943_390_976, "29.9 GB"), (13_391_999_999_999, "13.4 TB"), (9_007_199_254_740_991, "9.0 PB")],
)  # fmt: skip
def test_sizes_in_words(amount: int, text: str) -> None:
    assert size_text(amount) == text


def test_every_estimate_is_complete(catalog: Catalog) -> None:
    assert (count_text(426_752), count_text(671_026_404_352)) == ("426.8 × 10³", "671.0 × 10⁹")
    for model in catalog.facts.launch:
        for phase in catalog.memory(catalog.sanitise({"model": model, "speculative": True, "hicache": True}).state):
            assert phase.ranks and phase.rows
            for row in phase.rows:
                assert len(row.cells) == len(phase.ranks) and row.formulas and row.link.startswith("https://")
                for text in (row.label, *row.formulas, *phase.ranks, phase.label, phase.what):
                    assert text.zh and text.en and "{" not in text.zh + text.en
