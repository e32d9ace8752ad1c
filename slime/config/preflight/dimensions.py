"""The checkpoint's `config.json`: readable, and the model that the recipe means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.json_files import read_json
from slime.config.preflight.model import Model
from slime.config.rule import Finding, Rule

Found = Mapping[str, Any]
_Reader = Callable[[Model], Any]

# The recipe's key, and how config.json states it. What a file need not state is in _IF_STATED.
_ALWAYS: Mapping[str, _Reader] = {
    "hf_model_type": lambda model: model.whole.get("model_type"),
    "layers": lambda model: model.layers,
    "hidden": lambda model: model.hidden,
    "ffn": lambda model: model.ffn,
    "heads": lambda model: model.heads,
    "kv_groups": lambda model: model.groups,
    "head_dim": lambda model: model.head_dim,
    "vocab": lambda model: model.vocab,
    "rope_base": lambda model: _rope(model.found, "rope_theta"),
    "rotary_percent": lambda model: _rope(model.found, "partial_rotary_factor", 1),
    "norm_eps": lambda model: _first(model.found, "rms_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"),
    "tied_embeddings": lambda model: model.found.get("tie_word_embeddings"),
    "mtp_layers": lambda model: model.mtp_layers,
    "moe.experts": lambda model: model.experts,
    "moe.topk": lambda model: model.chosen,
    "moe.expert_ffn": lambda model: model.expert_ffn,
}
_IF_STATED: Mapping[str, _Reader] = {
    "qk_norm": lambda model: model.found.get("use_qk_norm"),
    "qkv_bias": lambda model: model.found.get("attention_bias"),
    "moe.dense_layers": lambda model: model.found.get("first_k_dense_replace"),
    "moe.shared_ffn": lambda model: model.shared_ffn,
    "moe.groups": lambda model: _above_one(model.found.get("n_group")),
    "moe.topk_groups": lambda model: _above_one(model.found.get("topk_group")),
    "moe.router_scale": lambda model: model.found.get("routed_scaling_factor"),
    "moe.router_score": lambda model: model.found.get("scoring_func"),
    "mla.q_lora": lambda model: model.found.get("q_lora_rank"),
    "mla.kv_lora": lambda model: model.found.get("kv_lora_rank"),
    "mla.qk_nope": lambda model: model.found.get("qk_nope_head_dim"),
    "mla.qk_rope": lambda model: model.found.get("qk_rope_head_dim"),
    "mla.v_head": lambda model: model.found.get("v_head_dim"),
    "mla.rope_scaling": lambda model: _rope_factor(model.found),
    "hybrid.linear_layers": lambda model: _linear_layers(model.found),
    "hybrid.state_dtype": lambda model: model.found.get("mamba_ssm_dtype"),
}


def check_config_file(inputs: Inputs) -> Iterator[Finding]:
    """The folder is there and its config.json can be read."""
    folder = inputs.folder
    if not folder.is_dir():
        yield Finding(
            f"--hf-checkpoint {inputs.config.hf_checkpoint}: no such folder",
            "run the stage prepare first",
            ("--hf-checkpoint",),
        )
        return
    try:
        read_json(folder / "config.json")
    except ValueError as error:
        yield Finding(
            f"{folder / 'config.json'}: {error}",
            "the download is incomplete, or the folder is no checkpoint",
            ("--hf-checkpoint",),
        )


def check_dimensions(inputs: Inputs) -> Iterator[Finding]:
    """Every dimension of config.json is that of the recipe's model file."""
    model, dimensions = inputs.model, inputs.model_dims
    if model is None or dimensions is None:
        return
    wanted = _flat(dimensions)
    if dimensions.get("mla") is not None:
        del wanted["head_dim"]  # latent attention has several head widths; which one is meant differs between models
    for key, expected in wanted.items():
        reader = _ALWAYS.get(key) or _IF_STATED.get(key)
        if expected is None or reader is None:
            continue
        actual = reader(model)
        if actual is None and key not in _ALWAYS:
            continue
        if actual is None:
            yield Finding(
                f"{model.path} does not state {key}; the model file says {expected}",
                "compare the two by hand",
                severity="warning",
            )
        elif not _same(expected, actual):
            yield Finding(
                f"{model.path} has {key} {actual}, the recipe's model file says {expected}: this is another model",
                "point --hf-checkpoint at the recipe's model, or choose the recipe of this model",
                ("--hf-checkpoint", "--recipe"),
            )


def _flat(dimensions: Found) -> dict[str, Any]:
    """``{"moe": {"topk": 8}}`` -> ``{"moe.topk": 8}``."""
    flat: dict[str, Any] = {}
    for key, value in dimensions.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": one for inner, one in value.items()}
        else:
            flat[key] = value
    return flat


def _first(found: Found, *names: str) -> Any:
    return next((found[name] for name in names if name in found), None)


def _above_one(value: Any) -> Any:
    """One group of experts means that there are none; recipes then state nothing."""
    return None if value == 1 else value


def _rope(found: Found, key: str, default: Any = None) -> Any:
    """Transformers 5 keeps rope settings in ``rope_parameters``, earlier versions beside the dimensions."""
    nested = found.get("rope_parameters")
    if isinstance(nested, Mapping) and key in nested:
        return nested[key]
    return found.get(key, default)


def _rope_factor(found: Found) -> Any:
    scaling = found.get("rope_scaling")
    return scaling.get("factor") if isinstance(scaling, Mapping) else None


def _linear_layers(found: Found) -> int | None:
    kinds = found.get("layer_types")
    return sum(kind == "linear_attention" for kind in kinds) if isinstance(kinds, list) else None


def _same(expected: Any, actual: Any) -> bool:
    """Model files carry decimals as text, so ``"1e-6"`` and 1e-06 are the same number."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    try:
        return Decimal(str(expected)) == Decimal(str(actual))
    except InvalidOperation:
        return str(expected) == str(actual)


RULES = (
    Rule(
        id="config-file",
        title=Text("checkpoint 目录存在，config.json 可以读取", "The checkpoint folder is there, with a config.json"),
        why=Text(
            "引擎、tokenizer 和训练端的维度都来自这个目录。",
            "Engine, tokenizer and the trainer's dimensions all come from this folder.",
        ),
        hf=check_config_file,
    ),
    Rule(
        id="model-dimensions",
        row=38,
        source="slime#641, slime#1720, miles#742",
        title=Text("checkpoint 正是配方所指的模型", "The checkpoint is the model that the recipe means"),
        why=Text(
            "同一系列的模型只差一个数，例如 rope 的底数；手抄的参数会让训练悄悄偏离采样端。",
            "Models of a series differ in one number, such as the base of the rotary embedding; copied by hand, it "
            "makes "
            "the trainer drift from the sampler without a word.",
        ),
        hf=check_dimensions,
    ),
)
