"""The checkpoint's config.json: readable, equal to the recipe's model file, and divisible as the flags want."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.validate.arithmetic import nearest_divisors

# The model file's key, and where config.json has it. A callable reads what has more than one spelling.
_READERS: Mapping[str, str | Callable[[Mapping[str, Any]], Any]] = {
    "hf_model_type": "model_type",
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "ffn": "intermediate_size",
    "heads": "num_attention_heads",
    "kv_groups": lambda found: found.get("num_key_value_heads", found.get("num_attention_heads")),
    "head_dim": lambda found: found.get("head_dim") or _head_dim(found),
    "vocab": "vocab_size",
    "rope_base": lambda found: _rope(found, "rope_theta"),
    "rotary_percent": lambda found: _rope(found, "partial_rotary_factor", 1),
    "norm_eps": lambda found: found.get(
        "rms_norm_eps", found.get("layer_norm_epsilon", found.get("layernorm_epsilon"))
    ),
    "tied_embeddings": "tie_word_embeddings",
    "mtp_layers": lambda found: found.get("num_nextn_predict_layers", found.get("mtp_num_hidden_layers", 0)),
}
_MOE: Mapping[str, tuple[str, ...]] = {
    "experts": ("n_routed_experts", "num_experts", "num_local_experts"),
    "topk": ("num_experts_per_tok",),
    "expert_ffn": ("moe_intermediate_size",),
    "dense_layers": ("first_k_dense_replace",),
}


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises ValueError with the reason, without the path."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError("no such file") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"a JSON object is expected, this is a {type(data).__name__}")
    return data


def check_dimensions(config: Config, model_dims: Mapping[str, Any] | None = None) -> Iterator[Problem]:
    """Compare config.json with the recipe's model file, and with what the flags divide it into."""
    path = Path(config.hf_checkpoint) / "config.json"
    if not path.parent.is_dir():
        yield Problem("hf", f"--hf-checkpoint {config.hf_checkpoint}: no such folder", "run the stage prepare first")
        return
    try:
        whole = read_json(path)
    except ValueError as error:
        yield Problem("hf", f"{path}: {error}", "the download is incomplete, or the folder is no checkpoint")
        return
    # A model with vision keeps the language model's numbers one level down.
    inner = whole.get("text_config")
    found = {**whole, **inner} if isinstance(inner, dict) else whole
    if model_dims is not None:
        yield from _compare(path, found, whole, model_dims)
    yield from _check_divisions(config, found)
    longest, limit = config.rollout_max_context_len, found.get("max_position_embeddings")
    if isinstance(limit, int) and longest is not None and longest > limit:
        yield Problem(
            "hf",
            f"prompt and response of up to {longest} tokens exceed the {limit} positions of {path}",
            f"give a context of at most {limit}",
            ("--rollout-max-context-len",),
        )


def _compare(
    path: Path, found: Mapping[str, Any], whole: Mapping[str, Any], model_dims: Mapping[str, Any]
) -> Iterator[Problem]:
    wanted: dict[str, Any] = {key: model_dims.get(key) for key in _READERS}
    if wanted["hf_model_type"] == whole.get("model_type"):
        del wanted["hf_model_type"]
    actual = {key: _read(found, key) for key in wanted}
    moe = model_dims.get("moe")
    if isinstance(moe, Mapping):
        wanted |= {f"moe.{key}": moe.get(key) for key in _MOE}
        actual |= {
            f"moe.{key}": next((found[name] for name in names if name in found), None) for key, names in _MOE.items()
        }
    if model_dims.get("mla") is not None:
        del wanted["head_dim"]  # latent attention has several head widths; which one is meant differs between models
    for key, expected in wanted.items():
        if expected is None or _same(expected, actual[key]):
            continue
        if actual[key] is None:
            yield Problem(
                "hf",
                f"{path} does not state {key}; the model file says {expected}",
                "compare the two by hand",
                severity="warning",
            )
            continue
        yield Problem(
            "hf",
            f"{path} has {key} {actual[key]}, the recipe's model file says {expected}: this is another model",
            "point --hf-checkpoint at the recipe's model, or choose the recipe of this model",
            ("--hf-checkpoint", "--recipe"),
        )


def _check_divisions(config: Config, found: Mapping[str, Any]) -> Iterator[Problem]:
    heads, groups, layers = (_read(found, key) for key in ("heads", "kv_groups", "layers"))
    tensor, pipeline = config.tensor_model_parallel_size, config.pipeline_model_parallel_size
    for noun, count, name, size in (
        ("attention heads", heads, "--tensor-model-parallel-size", tensor),
        ("key-value heads", groups, "--tensor-model-parallel-size", tensor),
        ("attention heads", heads, "--rollout-num-gpus-per-engine", config.rollout_num_gpus_per_engine),
        ("experts", next((found[name] for name in _MOE["experts"] if name in found), None),
         "--expert-model-parallel-size", config.expert_model_parallel_size),
    ):  # fmt: skip
        if isinstance(count, int) and not isinstance(count, bool) and count > 0 and count % size:
            yield Problem(
                "hf",
                f"{name} {size} does not divide the model's {count} {noun}",
                f"give {nearest_divisors(count, size)}",
                (name,),
            )
    explicit = config.decoder_first_pipeline_num_layers or config.decoder_last_pipeline_num_layers
    if isinstance(layers, int) and layers > 0 and layers % pipeline and not explicit:
        yield Problem(
            "hf",
            f"--pipeline-model-parallel-size {pipeline} does not divide the model's {layers} layers",
            f"give {nearest_divisors(layers, pipeline)}, or --decoder-last-pipeline-num-layers",
            ("--pipeline-model-parallel-size",),
        )


def _read(found: Mapping[str, Any], key: str) -> Any:
    reader = _READERS[key]
    return found.get(reader) if isinstance(reader, str) else reader(found)


def _head_dim(found: Mapping[str, Any]) -> int | None:
    hidden, heads = found.get("hidden_size"), found.get("num_attention_heads")
    return hidden // heads if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 else None


def _rope(found: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """Transformers 5 keeps rope settings in ``rope_parameters``, earlier versions beside the dimensions."""
    nested = found.get("rope_parameters")
    if isinstance(nested, Mapping) and key in nested:
        return nested[key]
    return found.get(key, default)


def _same(expected: Any, actual: Any) -> bool:
    """Model files carry decimals as text, so ``"1e-6"`` and 1e-06 are the same number."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    try:
        return Decimal(str(expected)) == Decimal(str(actual))
    except InvalidOperation:
        return str(expected) == str(actual)
