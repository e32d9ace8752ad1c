"""The arithmetic that a fact file must satisfy before anybody builds on it.

A check yields `Problem`s: the key that is wrong, its numbers, why it cannot work in one clause, and the nearest legal
values. The rules are Megatron-Core's and SGLang's own; without them a wrong number would show up on the cluster,
minutes after start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slime.config.yaml_lines import Path as KeyPath
from slime.experiment.facts_deviations import check_deviations
from slime.experiment.facts_schema import Dsa, LaunchFile, ModelFile, Moe


@dataclass(frozen=True)
class Problem:
    """What is wrong with the value at `path`."""

    path: KeyPath
    message: str


def divisors(number: int) -> list[int]:
    """All positive divisors of a positive `number`, ascending."""
    low = [value for value in range(1, math.isqrt(number) + 1) if number % value == 0]
    return low + [number // value for value in reversed(low) if value * value != number]


def near_divisors(number: int, value: int) -> str:
    """The divisors of `number` around `value`, for an error message: "4 or 8"."""
    below = [divisor for divisor in divisors(number) if divisor < value][-1:]
    above = [divisor for divisor in divisors(number) if divisor > value][:1]
    return _alternatives([*below, *above])


def near_multiples(step: int, value: int) -> str:
    """The positive multiples of `step` around `value`: "8 or 16"."""
    below = value // step * step
    return _alternatives([multiple for multiple in (below, below + step) if multiple > 0])


def _alternatives(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in values)


def stage_lengths(layers: int, pp: int, first: int | None, last: int | None) -> list[int] | None:
    """Layers of each pipeline stage as Megatron-Core splits them, or None if this split does not exist.

    The stages without a stated length share the remaining layers equally, each at least one.
    """
    stated = (first is not None) + (last is not None)
    if pp == 1:
        return [layers] if stated == 0 else None
    free, rest = pp - stated, layers - (first or 0) - (last or 0)
    if free == 0:
        return [first or 0, last or 0] if rest == 0 else None
    if rest < free or rest % free:
        return None
    middle = [rest // free] * free
    return [*([first] if first is not None else []), *middle, *([last] if last is not None else [])]


def check_model(model: ModelFile) -> Iterator[Problem]:
    """Problems inside one model file: attention parts, head counts, layer sums, router groups."""
    yield from _check_attention(model)
    if float(model.rotary_percent) > 1 or float(model.rotary_percent) == 0:
        yield Problem(
            ("rotary_percent",), f"is {model.rotary_percent}; the rotated share of a head is above 0 and at most 1"
        )
    moe = model.moe
    if moe is not None:
        if moe.dense_layers + moe.moe_layers != model.layers:
            right = model.layers - moe.dense_layers
            total = f"{moe.dense_layers} dense + {moe.moe_layers} MoE layers are not the {model.layers} layers"
            yield Problem(("moe", "moe_layers"), f"{total}; {right} would be")
        if moe.topk > moe.experts:
            yield Problem(("moe", "topk"), f"is {moe.topk}, but there are only {moe.experts} experts to choose from")
        yield from _check_router_groups(moe)
    hybrid = model.hybrid
    if hybrid is not None and hybrid.linear_layers + hybrid.attention_layers != model.layers:
        right = model.layers - hybrid.attention_layers
        total = f"{hybrid.linear_layers} linear + {hybrid.attention_layers} attention layers"
        yield Problem(("hybrid", "linear_layers"), f"{total} are not the {model.layers} layers; {right} would be")


def _check_router_groups(moe: Moe) -> Iterator[Problem]:
    if (moe.groups is None) != (moe.topk_groups is None):
        missing = "groups" if moe.groups is None else "topk_groups"
        yield Problem(("moe", missing), "is null, but group-limited routing needs groups and topk_groups, or neither")
    if moe.groups is not None and moe.experts % moe.groups:
        near = near_divisors(moe.experts, moe.groups)
        yield Problem(
            ("moe", "groups"), f"{moe.experts} experts do not divide into {moe.groups} groups; nearest: {near}"
        )
    if moe.groups is not None and moe.topk_groups is not None and moe.topk_groups > moe.groups:
        yield Problem(("moe", "topk_groups"), f"is {moe.topk_groups}, but there are only {moe.groups} groups")


def _check_attention(model: ModelFile) -> Iterator[Problem]:
    """The attention kind has exactly its parts, and its head counts fit."""
    needed = {"gqa": [], "mla": ["mla"], "mla-dsa": ["mla", "dsa"], "hybrid": ["hybrid"]}[model.attention]
    for part in ("mla", "dsa", "hybrid"):
        if (getattr(model, part) is None) == (part in needed):
            message = "is missing" if part in needed else "must be null"
            yield Problem(
                (part,),
                f"{message}: attention is {model.attention}, which has {' and '.join(needed) or 'none of these'}",
            )
    if (model.kv_groups is None) != (model.mla is not None):
        message = (
            "must be null: MLA has no key/value groups"
            if model.mla is not None
            else "is missing: the heads share key/value groups"
        )
        yield Problem(("kv_groups",), message)
    if model.kv_groups is not None and model.heads % model.kv_groups:
        near = near_divisors(model.heads, model.kv_groups)
        yield Problem(
            ("kv_groups",), f"{model.heads} heads do not divide into {model.kv_groups} groups; nearest: {near}"
        )
    if model.mla is not None and model.head_dim != model.mla.qk_nope:
        message = f"is {model.head_dim}, but the part of a head without rotation (mla.qk_nope) is {model.mla.qk_nope}"
        yield Problem(("head_dim",), message)


def check_launch(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    """Problems of one recipe against its model: training, serving, batch, conversion, flags, deviations."""
    yield from _check_training(recipe, model)
    yield from _check_engine(recipe, model)
    yield from _check_batch(recipe)
    yield from _check_conversion(recipe, model)
    yield from _check_extras(recipe, model)
    for path, message in check_deviations(recipe):
        yield Problem(path, message)


def _check_training(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    parallel, gpus = recipe.parallel, recipe.nodes * recipe.gpus_per_node
    dense, expert = parallel.tp * parallel.pp * parallel.cp, parallel.ep * parallel.etp * parallel.pp
    for name, product in (("tp * pp * cp", dense), ("ep * etp * pp", expert)):
        if gpus % product:
            step = math.lcm(dense, expert, recipe.gpus_per_node) // recipe.gpus_per_node
            near = near_multiples(step, recipe.nodes)
            total = f"{gpus} GPUs (nodes {recipe.nodes} x {recipe.gpus_per_node})"
            yield Problem(("nodes",), f"{total} do not divide by parallel {name} = {product}; nearest nodes: {near}")
    yield from _check_split(
        ("parallel",), recipe.parallel.pp, parallel.first_stage_layers, parallel.last_stage_layers, model
    )
    yield from _check_shards(("parallel",), parallel.tp, parallel.ep, model)
    if parallel.sequence_parallel and parallel.tp == 1:
        yield Problem(
            ("parallel", "sequence_parallel"),
            "is true with tp 1; it splits the sequence over the tensor-parallel ranks",
        )


def _check_shards(at: KeyPath, tp: int, ep: int, model: ModelFile) -> Iterator[Problem]:
    """Heads, key/value groups, FFN and experts divide over tensor- and expert-parallel ranks."""
    for name, size in (("heads", model.heads), ("ffn", model.ffn)):
        if size % tp:
            yield Problem(
                (*at, "tp"), f"{name} {size} does not divide over tp {tp}; nearest: {near_divisors(size, tp)}"
            )
    groups = model.kv_groups
    if groups is not None and groups % tp and tp % groups:
        message = f"kv_groups {groups} and tp {tp}: one must divide the other; nearest tp: {near_divisors(groups, tp)}"
        yield Problem((*at, "tp"), message)
    if model.moe is None and ep != 1:
        yield Problem((*at, "ep"), f"is {ep}, but {model.display} has no experts; write 1")
    if model.moe is not None and model.moe.experts % ep:
        near = near_divisors(model.moe.experts, ep)
        yield Problem((*at, "ep"), f"{model.moe.experts} experts do not divide over ep {ep}; nearest: {near}")


def _check_split(at: KeyPath, pp: int, first: int | None, last: int | None, model: ModelFile) -> Iterator[Problem]:
    """The pipeline stages sum to the layers, and begin on a layer that computes its sparse-attention index."""
    key = "last_stage_layers" if last is not None else "first_stage_layers" if first is not None else "pp"
    stages = stage_lengths(model.layers, pp, first, last)
    if stages is None:
        legal = [value for value in range(1, model.layers) if stage_lengths(model.layers, pp, first, value)]
        wish = last if last is not None else math.ceil(model.layers / pp)
        near = sorted(sorted(legal, key=lambda value: abs(value - wish))[:2])
        hint = (
            "write null: one stage holds all layers"
            if pp == 1
            else f"nearest last_stage_layers: {_alternatives(near) or 'none'}"
        )
        stated = f"{model.layers} layers over pp {pp} with first {first or 'even'} and last {last or 'even'}"
        yield Problem((*at, key), f"{stated} leave no whole number of layers for each stage; {hint}")
        return
    if model.dsa is None:
        return
    for number in range(1, pp):
        start = sum(stages[:number]) + 1
        if start > model.dsa.index_offset and (start - model.dsa.index_offset) % model.dsa.index_frequency:
            message = f"stage {number + 1} begins at layer {start}, which reuses the index of a layer on another stage"
            layers = _alternatives(_index_layers_near(model.dsa, start, model.layers))
            yield Problem((*at, key), f"{message}; nearest layers that compute one: {layers}")
            return  # the later stages are shifted by the same number


def _index_layers_near(dsa: Dsa, layer: int, layers: int) -> list[int]:
    below = dsa.index_offset + (layer - dsa.index_offset) // dsa.index_frequency * dsa.index_frequency
    return [value for value in (below, below + dsa.index_frequency) if value <= layers]


def _check_engine(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    engine, gpus = recipe.engine, recipe.nodes * recipe.gpus_per_node
    if gpus % engine.gpus:
        near = near_divisors(gpus, engine.gpus)
        yield Problem(("engine", "gpus"), f"{gpus} GPUs do not divide into engines of {engine.gpus}; nearest: {near}")
    if engine.gpus % engine.dp:
        near = near_divisors(engine.gpus, engine.dp)
        yield Problem(
            ("engine", "dp"), f"{engine.gpus} GPUs of an engine do not divide over dp {engine.dp}; nearest: {near}"
        )
    elif model.heads % (engine.gpus // engine.dp):
        width = engine.gpus // engine.dp
        message = f"{model.heads} heads do not divide over the {engine.gpus} / dp {engine.dp} = {width} GPUs of a rank"
        yield Problem(("engine", "dp"), message)
    if engine.ep and model.moe is None:
        yield Problem(("engine", "ep"), f"is {engine.ep}, but {model.display} has no experts; write 0")
    elif engine.ep and (engine.gpus % engine.ep or (model.moe is not None and model.moe.experts % engine.ep)):
        both = math.gcd(engine.gpus, model.moe.experts if model.moe is not None else engine.gpus)
        near = near_divisors(both, engine.ep)
        yield Problem(
            ("engine", "ep"),
            f"is {engine.ep}; it must divide the engine's {engine.gpus} GPUs and the experts; nearest: {near}",
        )


def _check_batch(recipe: LaunchFile) -> Iterator[Problem]:
    batch, parallel = recipe.batch, recipe.parallel
    answers = batch.prompts * batch.samples
    if answers % batch.global_:
        near = near_divisors(answers, batch.global_)
        message = f"{batch.prompts} prompts x {batch.samples} samples = {answers} do not make steps of {batch.global_}"
        yield Problem(("batch", "global"), f"{message}; nearest: {near}")
    dp = max(1, recipe.nodes * recipe.gpus_per_node // (parallel.tp * parallel.pp * parallel.cp))
    if batch.global_ % dp:
        message = f"{batch.global_} answers of a step do not divide over {dp} data-parallel ranks"
        yield Problem(("batch", "global"), f"{message}; nearest: {near_multiples(dp, batch.global_)}")


def _check_conversion(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    conversion = recipe.conversion
    ranks = conversion.nodes * recipe.gpus_per_node
    tp, pp, ep, etp = conversion.tp, conversion.pp, conversion.ep, conversion.etp
    first, last = conversion.first_stage_layers, conversion.last_stage_layers
    if tp is None or pp is None or ep is None or etp is None:
        given = [
            name
            for name in ("tp", "pp", "ep", "etp", "first_stage_layers", "last_stage_layers")
            if getattr(conversion, name)
        ]
        if given:
            yield Problem(
                ("conversion", given[0]), "is given, but tp, pp, ep and etp are not all; give all four, or none"
            )
        elif ranks > model.layers:
            message = (
                f"{ranks} ranks but {model.layers} layers; without a stated layout each rank is one pipeline stage"
            )
            yield Problem(("conversion", "nodes"), message)
        return
    for name, product in (("tp * pp", tp * pp), ("ep * etp * pp", ep * etp * pp)):
        if ranks % product:
            total = f"{ranks} ranks (nodes {conversion.nodes} x {recipe.gpus_per_node})"
            message = f"{total} do not divide by conversion {name} = {product}"
            step = product // math.gcd(product, recipe.gpus_per_node)
            yield Problem(
                ("conversion", "nodes"), f"{message}; nearest nodes: {near_multiples(step, conversion.nodes)}"
            )
    yield from _check_split(("conversion",), pp, first, last, model)
    yield from _check_shards(("conversion",), tp, ep, model)


FLAGS_OF_KEYS = {
    "--tensor-model-parallel-size": "parallel.tp",
    "--pipeline-model-parallel-size": "parallel.pp",
    "--context-parallel-size": "parallel.cp",
    "--expert-model-parallel-size": "parallel.ep",
    "--expert-tensor-parallel-size": "parallel.etp",
    "--sequence-parallel": "parallel.sequence_parallel",
    "--decoder-first-pipeline-num-layers": "parallel.first_stage_layers",
    "--decoder-last-pipeline-num-layers": "parallel.last_stage_layers",
    "--max-tokens-per-gpu": "max_tokens_per_gpu",
    "--rollout-num-gpus-per-engine": "engine.gpus",
    "--sglang-dp-size": "engine.dp",
    "--sglang-ep-size": "engine.ep",
}
"""Flags that another key of the launch file already says; a second statement could disagree."""


def _check_extras(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    """Extra flags stand once, serving flags are SGLang's, betas are below 1, held-out data goes with its interval."""
    seen: dict[str, KeyPath] = {}
    for group in ("training_flags", "serving_flags"):
        for index, extra in enumerate(getattr(recipe, group)):
            path: KeyPath = (group, index, "flag")
            if extra.flag in FLAGS_OF_KEYS:
                yield Problem(path, f"{extra.flag} is made from {FLAGS_OF_KEYS[extra.flag]}; state it there")
            if extra.flag in seen:
                yield Problem(
                    path, f"{extra.flag} stands twice; it was first at {'.'.join(map(str, seen[extra.flag]))}"
                )
            seen.setdefault(extra.flag, path)
            if (group == "serving_flags") != extra.flag.startswith("--sglang-"):
                other = "training_flags" if group == "serving_flags" else "serving_flags"
                yield Problem(path, f"{extra.flag} belongs to {other}: flags of the engine begin with --sglang-")
    for name in ("beta1", "beta2"):
        if float(getattr(recipe.optimizer, name)) >= 1:
            yield Problem(("optimizer", name), f"is {getattr(recipe.optimizer, name)}; Adam's decay rates are below 1")
    evaluation = recipe.evaluation
    if (evaluation.interval == 0) != (evaluation.data is None) or (evaluation.interval == 0) != (
        evaluation.samples == 0
    ):
        message = f"interval {evaluation.interval}, data {evaluation.data}, samples {evaluation.samples}"
        yield Problem(("evaluation",), f"{message}: either 0, null and 0 (no evaluation), or all three")
    if recipe.hf_repo != model.hf_repo:
        yield Problem(("hf_repo",), f"is {recipe.hf_repo or 'null'}, but the model file says {model.hf_repo or 'null'}")
