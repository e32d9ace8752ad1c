"""A small random checkpoint of every family, with every part switched on; transformers is the reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VOCABULARY = 96
# Every size differs from its neighbours', so that mixed-up sizes show; initial weights are wide, so that distributions
# are peaked and routers decide.
BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
EXPERTS = {"moe_intermediate_size": 48, "num_experts_per_tok": 2}
QWEN_EXPERTS = {**EXPERTS, "num_experts": 8, "norm_topk_prob": True}
SIGMOID_EXPERTS = {**EXPERTS, "n_routed_experts": 8, "n_shared_experts": 1, "routed_scaling_factor": 2.5}
LATENT = {
    "q_lora_rank": 32,
    "kv_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 20,
    "num_key_value_heads": 4,
}
LINEAR = {
    "head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
SHARED = {**QWEN_EXPERTS, "shared_expert_intermediate_size": 40}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
# name -> (prefix of the classes in transformers, values that differ from BASE)
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"rope_parameters": LLAMA3}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 24}),
    "glm4": ("Glm4", {"head_dim": 16, "attention_bias": True}),
    "qwen3_moe": ("Qwen3Moe", {**QWEN_EXPERTS, "head_dim": 24}),
    "glm4_moe": (
        "Glm4Moe",
        {**SIGMOID_EXPERTS, "head_dim": 24, "attention_bias": True, "use_qk_norm": True, "first_k_dense_replace": 1},
    ),
    "deepseek_v3": (
        "DeepseekV3",
        {
            **SIGMOID_EXPERTS,
            **LATENT,
            "n_routed_experts": 16,
            "num_experts_per_tok": 4,
            "n_group": 4,
            "topk_group": 2,
            "first_k_dense_replace": 1,
            "rope_parameters": YARN,
        },
    ),
    "glm4_moe_lite": ("Glm4MoeLite", {**SIGMOID_EXPERTS, **LATENT}),
    "glm_moe_dsa": (
        "GlmMoeDsa",
        {
            **SIGMOID_EXPERTS,
            **LATENT,
            "num_hidden_layers": 5,
            "first_k_dense_replace": 1,
            "index_topk": 6,  # below the sequences' lengths, so that keys are left out
            "index_head_dim": 16,
            "index_n_heads": 4,
            "index_topk_freq": 2,  # layers 2 and 4 use the choice of the layer before
            "index_skip_topk_offset": 2,
        },
    ),
    "qwen3_next": ("Qwen3Next", {**SHARED, **LINEAR}),
    "qwen3_5_text": ("Qwen3_5", {**LINEAR, "tie_word_embeddings": True}),
    "qwen3_5_moe_text": ("Qwen3_5Moe", {**SHARED, **LINEAR}),
}


def make_family(name: str, folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Save the random checkpoint of one family."""
    import transformers

    prefix, values = FAMILIES[name]
    text = "Text" if prefix.startswith("Qwen3_5") else ""
    torch.manual_seed(seed)
    config = getattr(transformers, f"{prefix}{text}Config")(**{**BASE, **values, **changes})
    model = getattr(transformers, f"{prefix}ForCausalLM")(config)
    with torch.no_grad():
        for tensor_name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if "norm" in tensor_name or tensor_name.endswith("bias"):
                tensor.add_(torch.randn_like(tensor) * 0.2)
    model.save_pretrained(folder)
    return folder


def reference(folder: Path) -> PreTrainedModel:
    """The saved model in float32, by transformers, in its plain attention."""
    import transformers

    model: PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def sequences(aligned: bool = False) -> list[torch.Tensor]:
    """Token ids of different lengths, without the padding id, whose embedding transformers does not train.

    Args:
        aligned: lengths that two context-parallel ranks need not fill up. An indexer's scores are often exactly 0 for
            several keys, and which of equals a top-k takes depends on how many there are.
    """
    lengths = (12, 8, 40, 24) if aligned else (13, 7, 40, 22)
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(2, VOCABULARY, (length,), generator=generator) for length in lengths]


def gradient_of(gradients: dict[str, torch.Tensor | None], name: str) -> torch.Tensor:
    """By the name that the checkpoint uses; in memory transformers keeps all experts of a layer in one tensor."""
    if name in gradients:
        found = gradients[name]
        return torch.zeros(()) if found is None else found
    if name == "lm_head.weight":
        return gradient_of(gradients, "model.embed_tokens.weight")
    layer, _, rest = name.partition(".experts.")
    number, _, projection = rest.partition(".")
    if projection.startswith("down_proj"):
        return gradient_of(gradients, f"{layer}.experts.down_proj")[int(number)]
    both = gradient_of(gradients, f"{layer}.experts.gate_up_proj")[int(number)]
    return both.chunk(2)[0 if projection.startswith("gate") else 1]
