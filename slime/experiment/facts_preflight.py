"""Arithmetic that ends real runs minutes after their start, checked when a recipe is read.

Each check has a public victim; `recipes/experiment/preflight.yaml` names them and says where every other one of their
kind is checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from slime.experiment.facts_checks import Problem, near_divisors, near_multiples
from slime.experiment.facts_schema import LaunchFile, ModelFile

PAD_FLAG = "--data-pad-size-multiplier"
PAD_DEFAULT = 128
"""The trainer's own default of that flag: packed sequences are padded to a multiple of it, times TP."""


def check_preflight(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    """Problems of one recipe against its model: groups of samples, engines on nodes, key/value heads, padding."""
    if recipe.batch.samples < 2:
        message = f"is {recipe.batch.samples}; GRPO compares the answers to one prompt, so it needs at least 2"
        yield Problem(("batch", "samples"), message)
    yield from _check_nodes_of_engine(recipe)
    yield from _check_key_value_heads(recipe, model)
    yield from _check_padding(recipe)


def _check_nodes_of_engine(recipe: LaunchFile) -> Iterator[Problem]:
    """An engine lies within one node or takes whole nodes, so that its ranks share NVLink as they expect to."""
    engine, node = recipe.engine.gpus, recipe.gpus_per_node
    if engine < node and node % engine:
        message = f"engines of {engine} GPUs do not divide a node of {node}; nearest: {near_divisors(node, engine)}"
        yield Problem(("engine", "gpus"), message)
    if engine > node and engine % node:
        message = f"an engine of {engine} GPUs takes no whole number of nodes of {node}"
        yield Problem(("engine", "gpus"), f"{message}; nearest: {near_multiples(node, engine)}")


def _check_key_value_heads(recipe: LaunchFile, model: ModelFile) -> Iterator[Problem]:
    """Key/value heads divide over the ranks of a replica, or are copied to a whole number of them."""
    groups, engine = model.kv_groups, recipe.engine
    if groups is None or engine.gpus % engine.dp:
        return
    width = engine.gpus // engine.dp
    if groups % width and width % groups:
        message = f"kv_groups {groups} and the {width} GPUs of a rank: one must divide the other"
        yield Problem(("engine", "dp"), f"{message}; nearest widths: {near_divisors(groups, width)}")


def _check_padding(recipe: LaunchFile) -> Iterator[Problem]:
    """Padded lengths divide over context and sequence parallelism: 2 chunks a context rank, TP shares of each."""
    parallel = recipe.parallel
    stated = next((extra.value for extra in recipe.training_flags if extra.flag == PAD_FLAG), None)
    multiple = int(stated or PAD_DEFAULT) * parallel.tp
    needed = parallel.cp * math.lcm(2, parallel.tp) if parallel.sequence_parallel else 2 * parallel.cp
    if parallel.cp > 1 and multiple % needed:
        message = f"lengths are padded to multiples of {multiple}, but CP {parallel.cp} with TP {parallel.tp}"
        yield Problem(("training_flags",), f"{message} needs multiples of {needed}: give {PAD_FLAG} {needed}")
