"""The names that expressions may use.

1. every choice of ``fields.yaml`` (``model``, ``layout``, ``cpuAdam``, ...);
2. every derived value of ``fields.yaml``, in order (a later one may read an earlier one);
3. the facts of the chosen recipe: the table ``FACTS`` below;
4. in a few places one more: ``before`` (transitions: the edited choice's old value), ``field`` and ``value`` (a rule
   with ``each``: the choice's name and value), ``role`` (argument rows: ``train`` in experiment.sh, ``regular``,
   ``prefill`` or ``decode`` in serving-reference.sh).

A fact that a recipe does not have is null, never a made-up number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slime.experiment.expression import Value
from slime.experiment.facts import Facts
from slime.experiment.facts_schema import LaunchFile, ModelFile


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
    "vocab": _int("vocabulary size", lambda r, m: m.vocab),
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

ROLES = ("train", "regular", "prefill", "decode")
"""Values of ``role`` in argument rows."""


def fact_values(facts: Facts, launch_id: str) -> dict[str, Value]:
    """The table ``FACTS`` read for one recipe."""
    recipe = facts.launch[launch_id]
    model = facts.models[recipe.model]
    return {name: fact.read(recipe, model) for name, fact in FACTS.items()}


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
