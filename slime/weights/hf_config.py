"""`config.json` of a Hugging Face checkpoint, read strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slime.weights.dimensions import HFModelConfig, Rope
from slime.weights.hf_parts import read_experts, read_latent, read_linear, read_rope, read_sparse
from slime.weights.hf_values import DTYPES, HFConfigError, Values

DENSE = ("llama", "qwen2", "qwen3", "glm4")
EXPERT = ("qwen3_moe", "glm4_moe")
LATENT = ("deepseek_v3", "glm4_moe_lite")
SPARSE = ("glm_moe_dsa",)
HYBRID = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
SUPPORTED_FAMILIES = (*DENSE, *EXPERT, *LATENT, *SPARSE, *HYBRID)
"""Values of `model_type` that can be built and converted."""

MAX_LAYERS = 1000
"""Far above any model; a file with a nonsensical number is then refused at once, and not after listing its tensors."""

COMPOSITE = {"qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text"}
"""Models with a vision tower: `model_type` of the whole -> that of its decoder, which ``text_config`` describes."""


def read_config(folder: Path) -> HFModelConfig:
    """Dimensions from ``folder/config.json``.

    Raises:
        HFConfigError: see `config_from_dict`; also for a missing file or broken JSON.
    """
    return config_from_dict(read_values(folder), str(folder / "config.json"))


def read_values(folder: Path) -> dict[str, Any]:
    """The object in ``folder/config.json``.

    Raises:
        HFConfigError: the file is missing, no JSON, or holds something else.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise HFConfigError(f"{path} does not exist; a Hugging Face checkpoint is a folder that holds config.json.")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HFConfigError(f"{path} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise HFConfigError(f"{path} holds a {type(values).__name__}; it must hold one JSON object.")
    return values


def config_from_dict(given: dict[str, Any], where: str = "config.json") -> HFModelConfig:
    """Dimensions from the parsed file; `where` names it in messages.

    Raises:
        HFConfigError: an unsupported family or feature, a missing key, a value of the wrong type, or numbers that do
            not fit together.
    """
    values, composite = _decoder_values(given, where)
    family = values.text("model_type")
    if family not in SUPPORTED_FAMILIES:
        raise HFConfigError(
            f"{where}: model_type is {family!r}, and the weights of that family have no map to Megatron; "
            f"supported: {', '.join((*SUPPORTED_FAMILIES, *COMPOSITE))}."
        )
    _refuse_unsupported(values, family)
    latent = read_latent(values) if family in (*LATENT, *SPARSE) else None
    layers, hidden, heads = (
        values.integer("num_hidden_layers", maximum=MAX_LAYERS),
        values.integer("hidden_size"),
        values.heads(),
    )
    groups = heads if latent else values.integer("num_key_value_heads")
    if heads % groups:
        raise HFConfigError(f"{where}: num_attention_heads {heads} must be a multiple of num_key_value_heads {groups}.")
    hybrid = family in HYBRID
    return HFModelConfig(
        family=family,
        layers=layers,
        hidden=hidden,
        ffn=values.integer("intermediate_size"),
        heads=heads,
        groups=groups,
        head_dim=latent.nope + latent.rope if latent else _head_dim(values, hidden, heads),
        vocab=values.integer("vocab_size"),
        max_positions=values.integer("max_position_embeddings"),
        rope=_rope(values, family),
        norm_eps=values.number("rms_norm_eps"),
        tied_embeddings=bool(given.get("tie_word_embeddings", values.get("tie_word_embeddings", False))),
        qkv_bias=family == "qwen2" or (family in ("glm4", "glm4_moe") and values.flag("attention_bias")),
        qk_norm=family in ("qwen3", "qwen3_moe") or hybrid or (family == "glm4_moe" and values.flag("use_qk_norm")),
        dtype=_dtype(values, given),
        prefix="model.language_model." if composite else "model.",
        untrained=_untrained(layers, composite, family),
        sandwich_norms=family == "glm4",
        output_gate=hybrid,
        zero_centred_norms=hybrid,
        fused_gate_up=family == "glm4",
        experts=None if family in DENSE or family == "qwen3_5_text" else read_experts(values, family, layers),
        latent=latent,
        sparse=read_sparse(values, layers) if family in SPARSE else None,
        linear=read_linear(values, layers) if hybrid else None,
        mtp_available=_mtp(values, family),
    )


def _decoder_values(given: dict[str, Any], where: str) -> tuple[Values, bool]:
    """The part of the file that describes the decoder, and whether there is more than a decoder."""
    whole = given.get("model_type")
    if whole not in COMPOSITE:
        return Values(given, where), False
    text = given.get("text_config")
    if not isinstance(text, dict):
        raise HFConfigError(f"{where}: model_type {whole!r} needs text_config, the decoder's dimensions.")
    return Values({"model_type": COMPOSITE[str(whole)], **text}, f"{where}: text_config"), True


def _refuse_unsupported(values: Values, family: str) -> None:
    activation = values.get("hidden_act", "silu")
    if activation != "silu":
        raise HFConfigError(f"{values.where}: hidden_act is {activation!r}; only 'silu' (SwiGLU) is built.")
    if values.flag("use_sliding_window"):
        raise HFConfigError(f"{values.where}: use_sliding_window is true; only full attention is built.")
    if values.flag("attention_bias") and family not in ("qwen2", "glm4", "glm4_moe"):
        raise HFConfigError(f"{values.where}: attention_bias is true; {family} is built without biases.")
    if values.flag("mlp_bias"):
        raise HFConfigError(f"{values.where}: mlp_bias is true; only an MLP without biases is built.")
    if values.get("quantization_config"):
        raise HFConfigError(
            f"{values.where}: the checkpoint is quantised (quantization_config); give the one in bfloat16."
        )


def _head_dim(values: Values, hidden: int, heads: int) -> int:
    if values.get("head_dim") is not None:
        return values.integer("head_dim")
    if hidden % heads:
        raise HFConfigError(
            f"{values.where}: without head_dim, hidden_size {hidden} must be a multiple of {heads} heads."
        )
    return hidden // heads


def _rope(values: Values, family: str) -> Rope:
    default = {"glm4": 0.5, "glm4_moe": 0.5, **dict.fromkeys(HYBRID, 0.25)}.get(family, 1.0)
    return read_rope(
        values, default_fraction=default, interleaved=family == "glm4", latent=family in (*LATENT, *SPARSE)
    )


def _untrained(layers: int, composite: bool, family: str) -> tuple[str, ...]:
    """Next-token heads stand behind the last layer (GLM, DeepSeek) or under ``mtp.`` (Qwen)."""
    if family in HYBRID:
        return ("mtp.", "model.visual.") if composite else ("mtp.",)
    return (f"model.layers.{layers}.",) if family in ("glm4_moe", *LATENT, *SPARSE) else ()


def _mtp(values: Values, family: str) -> int:
    """Layers of multi-token prediction. Qwen3-Next's file does not say that it has one."""
    if family == "qwen3_next":
        return values.integer("num_nextn_predict_layers", 1, minimum=0)
    if family in HYBRID:
        return values.integer("mtp_num_hidden_layers", 0, minimum=0)
    if family in ("glm4_moe", *LATENT, *SPARSE):
        return values.integer("num_nextn_predict_layers", 0, minimum=0)
    return 0


def _dtype(values: Values, given: dict[str, Any]) -> str:
    for source in (given, values.values):
        dtype = source.get("dtype", source.get("torch_dtype"))
        if dtype is not None:
            if dtype not in DTYPES:
                raise HFConfigError(f"{values.where}: dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}.")
            return str(dtype)
    return "float32"


__all__ = [
    "DTYPES",
    "SUPPORTED_FAMILIES",
    "HFConfigError",
    "HFModelConfig",
    "config_from_dict",
    "read_config",
    "read_values",
]
