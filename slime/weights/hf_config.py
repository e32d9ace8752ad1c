"""`config.json` of a Hugging Face checkpoint, read strictly: dimensions of the families that the trainer can build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUPPORTED_FAMILIES = ("qwen2", "qwen3")
"""Values of `model_type` that can be built and converted today."""

DTYPES = ("float32", "bfloat16", "float16")


class HFConfigError(ValueError):
    """`config.json` is missing, unreadable, or describes a model that cannot be built; the message says which."""


@dataclass(frozen=True)
class HFModelConfig:
    """Dimensions of a dense decoder with grouped-query attention, SwiGLU and RMSNorm. Sizes are in elements.

    Attributes:
        family: `model_type`, one of `SUPPORTED_FAMILIES`.
        groups: key-value heads; each serves ``heads / groups`` query heads.
        qkv_bias: the q, k and v projections have biases (Qwen2).
        qk_norm: RMSNorm over each head of q and k (Qwen3).
        dtype: of the stored weights, one of `DTYPES`.
    """

    family: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    groups: int
    head_dim: int
    vocab: int
    max_positions: int
    rope_theta: float
    norm_eps: float
    tied_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    dtype: str

    @classmethod
    def read(cls, folder: Path) -> HFModelConfig:
        """Read ``folder/config.json``.

        Raises:
            HFConfigError: see `from_dict`; also for a missing file or broken JSON.
        """
        path = folder / "config.json"
        if not path.is_file():
            raise HFConfigError(f"{path} does not exist; a Hugging Face checkpoint is a folder that holds config.json.")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise HFConfigError(f"{path} is not JSON: {error}.") from error
        if not isinstance(values, dict):
            raise HFConfigError(f"{path} holds a {type(values).__name__}; it must hold one JSON object.")
        return cls.from_dict(values, str(path))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "config.json") -> HFModelConfig:
        """Dimensions from the parsed file; `where` names it in messages.

        Raises:
            HFConfigError: an unsupported family or feature, a missing key, a value of the wrong type, or heads that
                cannot be divided into groups.
        """
        family = _family(values, where)
        _refuse_unsupported(values, family, where)
        heads = _integer(values, "num_attention_heads", where)
        groups = _integer(values, "num_key_value_heads", where)
        hidden = _integer(values, "hidden_size", where)
        if heads % groups:
            raise HFConfigError(
                f"{where}: num_attention_heads {heads} must be a multiple of num_key_value_heads {groups}."
            )
        if values.get("head_dim") is None and hidden % heads:
            raise HFConfigError(f"{where}: without head_dim, hidden_size {hidden} must be a multiple of {heads} heads.")
        return cls(
            family=family,
            layers=_integer(values, "num_hidden_layers", where),
            hidden=hidden,
            ffn=_integer(values, "intermediate_size", where),
            heads=heads,
            groups=groups,
            head_dim=_integer(values, "head_dim", where) if values.get("head_dim") is not None else hidden // heads,
            vocab=_integer(values, "vocab_size", where),
            max_positions=_integer(values, "max_position_embeddings", where),
            rope_theta=_rope_theta(values, where),
            norm_eps=_number(values, "rms_norm_eps", where),
            tied_embeddings=bool(values.get("tie_word_embeddings", False)),
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
            dtype=_dtype(values, where),
        )


def _family(values: Mapping[str, Any], where: str) -> str:
    family = values.get("model_type")
    if family not in SUPPORTED_FAMILIES:
        raise HFConfigError(
            f"{where}: model_type is {family!r}, and the weights of that family have no map to Megatron yet; "
            f"supported: {', '.join(SUPPORTED_FAMILIES)}."
        )
    return str(family)


def _refuse_unsupported(values: Mapping[str, Any], family: str, where: str) -> None:
    activation = values.get("hidden_act", "silu")
    if activation != "silu":
        raise HFConfigError(f"{where}: hidden_act is {activation!r}; only 'silu' (SwiGLU) is built.")
    if values.get("use_sliding_window"):
        raise HFConfigError(f"{where}: use_sliding_window is true; only full attention is built.")
    if family == "qwen3" and values.get("attention_bias"):
        raise HFConfigError(f"{where}: attention_bias is true; only Qwen3 without biases is built.")
    if values.get("quantization_config"):
        raise HFConfigError(f"{where}: the checkpoint is quantised (quantization_config); give the one in bfloat16.")


def _rope_theta(values: Mapping[str, Any], where: str) -> float:
    """The base of the rotary frequencies: in `rope_parameters` (transformers 5) or on the top level (before)."""
    parameters = values.get("rope_parameters") or values.get("rope_scaling") or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise HFConfigError(f"{where}: rope type is {kind!r}; only 'default' (no scaling) is built.")
    source = parameters if "rope_theta" in parameters else values
    return _number(source, "rope_theta", where)


def _dtype(values: Mapping[str, Any], where: str) -> str:
    dtype = values.get("dtype", values.get("torch_dtype", "float32"))
    if dtype not in DTYPES:
        raise HFConfigError(f"{where}: dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}.")
    return str(dtype)


def _integer(values: Mapping[str, Any], key: str, where: str) -> int:
    value = values.get(key)
    if type(value) is not int or value < 1:
        raise HFConfigError(f"{where}: {key} is {value!r}; it must be an integer above 0.")
    return value


def _number(values: Mapping[str, Any], key: str, where: str) -> float:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise HFConfigError(f"{where}: {key} is {value!r}; it must be a number above 0.")
    return float(value)
