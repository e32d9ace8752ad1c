"""The names that expressions may use.

1. every choice of ``fields.yaml`` (``model``, ``layout``, ``cpuAdam``, ...);
2. every derived value of ``fields.yaml``, in order (a later one may read an earlier one);
3. the facts of the chosen recipe: the table ``FACTS`` below;
4. in a few places one more: ``before`` (transitions: the edited choice's old value), ``field`` and ``value`` (a rule
   with ``each``: the choice's name and value), ``role`` (argument rows: ``train`` in experiment.sh, ``regular``,
   ``prefill`` or ``decode`` in serving-reference.sh).

A fact that nobody read is null, never a made-up number. The size of a part that a model does not have is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slime.experiment.expression import Value
from slime.experiment.facts import Facts
from slime.experiment.facts_schema import Hybrid, LaunchFile, ModelFile


@dataclass(frozen=True)
class Fact:
    """One name: what it is, its kinds (``int``, ``bool``, ``text``, ``null``) and how it is read from the files."""

    doc: str
    kinds: tuple[str, ...]
    read: Callable[[LaunchFile, ModelFile], Value]


def _int(doc: str, read: Callable[[LaunchFile, ModelFile], Value]) -> Fact:
    return Fact(doc, ("int",), read)


def _maybe_int(doc: str, read: Callable[[LaunchFile, ModelFile], Value]) -> Fact:
    return Fact(doc, ("int", "null"), read)


def _text(doc: str, read: Callable[[LaunchFile, ModelFile], Value]) -> Fact:
    return Fact(doc, ("text",), read)


def _maybe_text(doc: str, read: Callable[[LaunchFile, ModelFile], Value]) -> Fact:
    return Fact(doc, ("text", "null"), read)


def _bool(doc: str, read: Callable[[LaunchFile, ModelFile], Value]) -> Fact:
    return Fact(doc, ("bool",), read)


def _all_to_all(recipe: LaunchFile) -> str:
    """The recipe's own all-to-all backend of serving."""
    stated = (extra.value for extra in recipe.serving_flags if extra.flag == "--sglang-moe-a2a-backend")
    return next(stated, None) or "none"


def _linear(model: ModelFile, read: Callable[[Hybrid], int]) -> int:
    """A size of the linear-attention layers; 0 without any."""
    return read(model.hybrid) if model.hybrid is not None else 0


FACTS: dict[str, Fact] = {
    "display": _text("the recipe's name as shown", lambda r, m: r.display),
    "recipe_path": _text("the recipe's launch file", lambda r, m: f"recipes/launch/{r.id}.yaml"),
    "size": _text("its size line, such as 30B, A3B, MoE", lambda r, m: r.size),
    "device": _text("cuda or cpu", lambda r, m: r.device),
    "hf_repo": _maybe_text("repository on the Hugging Face Hub; null: made locally", lambda r, m: r.hf_repo),
    "dataset_repo": _maybe_text("training prompts on the Hub; null: made locally", lambda r, m: r.dataset.hf_repo),
    "published_precision": _text("precision of the published weights", lambda r, m: r.published_precision),
    "reward_type": _text("built-in grader, --rm-type", lambda r, m: r.reward),
    "default_nodes": _int("training nodes of the recipe", lambda r, m: r.nodes),
    "gpus_per_node": _int("GPUs (CPU recipe: processes) of one node", lambda r, m: r.gpus_per_node),
    "tp": _int("tensor parallel", lambda r, m: r.parallel.tp),
    "pp": _int("pipeline parallel", lambda r, m: r.parallel.pp),
    "cp": _int("context parallel", lambda r, m: r.parallel.cp),
    "ep": _int("expert parallel", lambda r, m: r.parallel.ep),
    "etp": _int("expert tensor parallel", lambda r, m: r.parallel.etp),
    "sequence_parallel": _bool("sequence parallel on", lambda r, m: r.parallel.sequence_parallel),
    "first_stage_layers": _maybe_int("layers of the first pipeline stage", lambda r, m: r.parallel.first_stage_layers),
    "last_stage_layers": _maybe_int("layers of the last pipeline stage", lambda r, m: r.parallel.last_stage_layers),
    "engine": _int("GPUs of one serving engine", lambda r, m: r.engine.gpus),
    "engine_dp": _int("data-parallel ranks inside one engine", lambda r, m: r.engine.dp),
    "engine_ep": _int("expert parallel of one engine; 0: no flag", lambda r, m: r.engine.ep),
    "engine_a2a": _text("how experts of an engine exchange tokens; none: all-reduce", lambda r, m: _all_to_all(r)),
    "max_tokens_per_gpu": _int("tokens of one micro-batch on one GPU", lambda r, m: r.max_tokens_per_gpu),
    "prompts": _int("prompts of one rollout", lambda r, m: r.batch.prompts),
    "samples": _int("answers to one prompt", lambda r, m: r.batch.samples),
    "global_batch": _int("samples of one optimizer step", lambda r, m: r.batch.global_),
    "lr": _text("learning rate, decimal text", lambda r, m: r.optimizer.lr),
    "warmup_steps": _int("warm-up steps of the learning rate", lambda r, m: r.optimizer.warmup_steps),
    "weight_decay": _text("weight decay, decimal text", lambda r, m: r.optimizer.weight_decay),
    "beta1": _text("Adam beta 1, decimal text", lambda r, m: r.optimizer.beta1),
    "beta2": _text("Adam beta 2, decimal text", lambda r, m: r.optimizer.beta2),
    "eval_interval": _int("rollouts between evaluations; 0: none", lambda r, m: r.evaluation.interval),
    "eval_data": _maybe_text("held-out prompts", lambda r, m: r.evaluation.data),
    "eval_samples": _int("answers per held-out prompt", lambda r, m: r.evaluation.samples),
    "convert_nodes": _int("nodes of the checkpoint conversion", lambda r, m: r.conversion.nodes),
    "convert_tp": _maybe_int("conversion tensor parallel", lambda r, m: r.conversion.tp),
    "convert_pp": _maybe_int("conversion pipeline parallel", lambda r, m: r.conversion.pp),
    "convert_ep": _maybe_int("conversion expert parallel", lambda r, m: r.conversion.ep),
    "convert_etp": _maybe_int("conversion expert tensor parallel", lambda r, m: r.conversion.etp),
    "convert_first": _maybe_int("conversion layers, first stage", lambda r, m: r.conversion.first_stage_layers),
    "convert_last": _maybe_int("conversion layers, last stage", lambda r, m: r.conversion.last_stage_layers),
    "layers": _int("transformer layers", lambda r, m: m.layers),
    "hidden": _int("hidden size", lambda r, m: m.hidden),
    "ffn": _int("width of a dense layer's MLP", lambda r, m: m.ffn),
    "heads": _int("attention heads", lambda r, m: m.heads),
    "kv_groups": _int("key/value heads; 0: latent attention", lambda r, m: m.kv_groups or 0),
    "head_dim": _int("width of a head (latent attention: without rotation)", lambda r, m: m.head_dim),
    "vocab": _int("vocabulary size", lambda r, m: m.vocab),
    "vocab_divisor": _int("vocabulary is padded to this many times TP; 1: not", lambda r, m: m.vocab_divisor),
    "max_positions": _maybe_int("context of the checkpoint; null: unknown", lambda r, m: m.max_positions),
    "tied": _bool("output layer shares the embedding", lambda r, m: m.tied_embeddings),
    "qk_norm": _bool("norms on queries and keys", lambda r, m: m.qk_norm),
    "qkv_bias": _bool("biases on queries, keys and values", lambda r, m: m.qkv_bias),
    "sandwich_norm": _bool("norms after attention and MLP too", lambda r, m: m.sandwich_norm),
    "dense_layers": _int("layers with a dense MLP", lambda r, m: m.moe.dense_layers if m.moe else m.layers),
    "experts": _int("routed experts of a MoE layer; 0: none", lambda r, m: m.moe.experts if m.moe else 0),
    "topk": _int("experts that a token is sent to; 0: none", lambda r, m: m.moe.topk if m.moe else 0),
    "expert_ffn": _int("width of one expert; 0: none", lambda r, m: m.moe.expert_ffn if m.moe else 0),
    "shared_ffn": _int("width of the shared experts; 0: none", lambda r, m: m.moe.shared_ffn if m.moe else 0),
    "q_lora": _int("rank of the queries; 0: no latent attention", lambda r, m: m.mla.q_lora if m.mla else 0),
    "kv_lora": _int("rank of keys and values; 0: no latent attention", lambda r, m: m.mla.kv_lora if m.mla else 0),
    "qk_rope": _int("rotated width of a latent head; 0: none", lambda r, m: m.mla.qk_rope if m.mla else 0),
    "v_head": _int("value width of a latent head; 0: none", lambda r, m: m.mla.v_head if m.mla else 0),
    "index_frequency": _int(
        "layers between indexes; 1: every layer", lambda r, m: m.dsa.index_frequency if m.dsa else 1
    ),
    "index_offset": _int("first layers that all have an index", lambda r, m: m.dsa.index_offset if m.dsa else 0),
    "index_heads": _int("heads of the index; 0: none", lambda r, m: m.dsa.index_heads if m.dsa else 0),
    "index_dim": _int("head width of the index; 0: none", lambda r, m: m.dsa.index_dim if m.dsa else 0),
    "linear_key": _int("key width of linear attention", lambda r, m: _linear(m, lambda h: h.key_heads * h.key_dim)),
    "linear_value": _int(
        "value width of linear attention", lambda r, m: _linear(m, lambda h: h.value_heads * h.value_dim)
    ),
    "linear_heads": _int("value heads of linear attention", lambda r, m: _linear(m, lambda h: h.value_heads)),
    "linear_key_dim": _int("key width of one such head", lambda r, m: _linear(m, lambda h: h.key_dim)),
    "linear_value_dim": _int("value width of one such head", lambda r, m: _linear(m, lambda h: h.value_dim)),
    "conv_kernel": _int("kernel of its convolution", lambda r, m: _linear(m, lambda h: h.conv_kernel)),
    "gated": _bool("full attention has an output gate", lambda r, m: m.hybrid is not None and m.hybrid.gated),
    "attention": _text("gqa, mla, mla-dsa or hybrid", lambda r, m: m.attention),
    "parameters_billion": _text("parameters in billions, decimal text", lambda r, m: str(m.parameters_billion)),
    "moe": _bool("has routed experts", lambda r, m: m.moe is not None),
    "mtp": _bool("has a built-in draft (MTP) layer", lambda r, m: m.mtp_layers > 0),
    "hybrid": _bool("has linear-attention layers", lambda r, m: m.hybrid is not None),
    "dsa": _bool("has sparse attention (DSA)", lambda r, m: m.dsa is not None),
    "linear_kind": _maybe_text("kind of linear attention", lambda r, m: m.hybrid.linear_kind if m.hybrid else None),
    "linear_layers": _int("linear-attention layers", lambda r, m: m.hybrid.linear_layers if m.hybrid else 0),
    "attention_layers": _int("full-attention layers", lambda r, m: m.hybrid.attention_layers if m.hybrid else m.layers),
    "state_dtype": _maybe_text("dtype of the recurrent state", lambda r, m: m.hybrid.state_dtype if m.hybrid else None),
}
"""Every fact by the name that expressions use."""

IMAGE_FACTS: dict[str, str] = {
    "image_reference": "what docker run takes; empty: no published image, or none chosen",
    "image_toolkit": "CUDA or ROCm of the chosen image",
    "image_gpus": "GPUs that the chosen image is built for",
    "image_architecture": "processor of the chosen image",
    "image_is_hopper": "built for the H100 or H200 that the recipes assume",
}
"""Names for the chosen container image; texts are empty while none is chosen."""
NO_IMAGE = "unknown"

ROLES = ("train", "regular", "prefill", "decode")
"""Values of ``role`` in argument rows."""


def fact_values(facts: Facts, launch_id: str) -> dict[str, Value]:
    """The table ``FACTS`` read for one recipe."""
    recipe = facts.launch[launch_id]
    model = facts.models[recipe.model]
    return {name: fact.read(recipe, model) for name, fact in FACTS.items()}


def image_values(facts: Facts) -> dict[str, dict[str, Value]]:
    """The names of ``IMAGE_FACTS`` for every value of the choice ``image``."""
    none: dict[str, Value] = dict.fromkeys(IMAGE_FACTS, "")
    result = {NO_IMAGE: none | {"image_is_hopper": False}}
    for image in facts.images.images:
        result[image.id] = {
            "image_reference": image.reference or "",
            "image_toolkit": image.toolkit,
            "image_gpus": " / ".join(image.gpus),
            "image_architecture": image.architecture,
            "image_is_hopper": "H100" in image.gpus,
        }
    return result


def launch_defaults(facts: Facts, launch_id: str) -> dict[str, Value]:
    """What ``from_launch`` may name: the recipe's ``defaults`` and four values computed from its layout."""
    recipe = facts.launch[launch_id]
    model = facts.models[recipe.model]
    return {
        **recipe.defaults.model_dump(),
        "nodes": recipe.nodes,
        "rollout": recipe.nodes * recipe.gpus_per_node,
        "prefill": recipe.engine.gpus,
        "draftSource": "builtin" if model.mtp_layers > 0 else "external",
    }
