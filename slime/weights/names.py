"""Weights in both directions, Hugging Face <-> Megatron: one table, cut for one rank or whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from slime.weights.dimensions import HFModelConfig
from slime.weights.layouts import Rule, cuts_merged, local_dimensions, merge, shard, split
from slime.weights.tables import rules


class WeightNameError(ValueError):
    """Tensors are missing, surplus or have a wrong shape; the message names them."""


@dataclass(frozen=True)
class Place:
    """What one rank holds of the model.

    Attributes:
        tensor, experts_tensor: (rank, size) of tensor parallelism, and of that inside experts.
        experts: (rank, size) of expert parallelism; a rank holds consecutive experts.
        layers: global zero-based decoder layers, in the order in which the rank counts them; None = all.
        first, last: it holds the embedding; the final norm and the output layer.
    """

    tensor: tuple[int, int] = (0, 1)
    experts_tensor: tuple[int, int] = (0, 1)
    experts: tuple[int, int] = (0, 1)
    layers: tuple[int, ...] | None = None
    first: bool = True
    last: bool = True

    def cut_of(self, rule: Rule) -> tuple[int, int]:
        """(rank, size) of the parallelism that cuts the tensors of `rule`."""
        return self.tensor if rule.expert is None else self.experts_tensor

    def holds(self, rule: Rule, config: HFModelConfig) -> bool:
        """True when this rank has a cut of `rule`."""
        if rule.layer is None:
            here = self.holds_embedding(config) if rule.megatron.startswith("embedding.") else self.last
            return here and self._holds_expert(rule, config)
        return (self.layers is None or rule.layer in self.layers) and self._holds_expert(rule, config)

    def holds_embedding(self, config: HFModelConfig) -> bool:
        """True at the beginning of the model, and beside its MTP layers, which embed the tokens too."""
        return self.first or (self.last and config.mtp > 0)

    def _holds_expert(self, rule: Rule, config: HFModelConfig) -> bool:
        if rule.expert is None or config.experts is None:
            return True
        rank, size = self.experts
        return rule.expert // (config.experts.count // size) == rank

    def local_name(self, rule: Rule, config: HFModelConfig) -> str:
        """Name of the rank's own parameter: layers and experts are counted from 0 on each rank."""
        name = rule.megatron
        if rule.layer is not None and self.layers is not None:
            name = name.replace(f"layers.{rule.layer}.", f"layers.{self.layers.index(rule.layer)}.", 1)
        if rule.expert is not None and config.experts is not None:
            local = rule.expert % (config.experts.count // self.experts[1])
            name = name.replace(f"local_experts.{rule.expert}.", f"local_experts.{local}.", 1)
        return name


WHOLE = Place()
"""The only rank of a model on one process."""


def canonical_name(name: str) -> str:
    """A parameter name of Megatron as the table writes it.

    Wrappers (DDP, Float16Module) prefix ``module.``; Transformer Engine's fused layers call the norms before attention
    and MLP ``linear_qkv.layer_norm_weight`` and ``linear_fc1.layer_norm_weight``.
    """
    while name.startswith("module."):
        name = name.removeprefix("module.")
    name = name.replace("self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight")
    return re.sub(r"(?<=\d\.)mlp\.linear_fc1\.layer_norm_weight", "pre_mlp_layernorm.weight", name)


@dataclass(frozen=True)
class Comparison:
    """A checkpoint's tensors against the table: sorted names, and a sentence for each wrong shape."""

    missing: list[str]
    surplus: list[str]
    misshapen: list[str]


def compare_hf_tensors(shapes: Mapping[str, tuple[int, ...]], config: HFModelConfig) -> Comparison:
    """What is missing, surplus or of another shape; see `check_hf_tensors`."""
    expected = {tensor.name: tensor.shape for rule in rules(config) for tensor in rule.hf}
    allowed = set(expected) | ({"lm_head.weight"} if config.tied_embeddings else set())
    surplus = [name for name in set(shapes) - allowed if not name.startswith(config.untrained or ("\0",))]
    misshapen = [
        f"{name} has shape {list(shapes[name])}, config.json asks for {list(shape)}"
        for name, shape in sorted(expected.items())
        if name in shapes and tuple(shapes[name]) != shape
    ]
    return Comparison(sorted(set(expected) - set(shapes)), sorted(surplus), misshapen)


def check_hf_tensors(shapes: Mapping[str, tuple[int, ...]], config: HFModelConfig, where: str) -> None:
    """Compare the tensors of a checkpoint with the table.

    A tied model may also store ``lm_head.weight``, a copy of the embedding; tensors of parts that are not trained
    (``config.untrained``) may be there or not.

    Args:
        shapes: Hugging Face name -> shape of every tensor of the checkpoint.
        where: the checkpoint's path, for the message.

    Raises:
        WeightNameError: names every missing and surplus tensor and every wrong shape.
    """
    found = compare_hf_tensors(shapes, config)
    both = (("missing", found.missing), ("surplus", found.surplus))
    problems = [f"{word}: {_listed(names)}" for word, names in both if names] + found.misshapen
    if problems:
        shown = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise WeightNameError(f"{where} does not hold the weights of its config.json. " + "; ".join(shown) + ".")


def _listed(names: list[str], limit: int = 12) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def untrained_names(names: Iterable[str], config: HFModelConfig) -> list[str]:
    """Those of `names` that a conversion carries through unchanged, sorted."""
    return sorted(name for name in names if config.untrained and name.startswith(config.untrained))


def to_megatron(
    read: Callable[[str], Tensor], config: HFModelConfig, place: Place = WHOLE
) -> Iterator[tuple[str, Tensor]]:
    """Every (local name, tensor) of one rank; `read` returns a whole Hugging Face tensor by name."""
    for name, make in local_tensors(read, config, place):
        yield name, make()


def local_tensors(
    read: Callable[[str], Tensor], config: HFModelConfig, place: Place
) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """As `to_megatron`, with a function in place of each tensor, which reads it."""
    for rule in rules(config):
        if place.holds(rule, config):
            yield place.local_name(rule, config), partial(_local_tensor, rule, read, config, place)
    if config.tied_embeddings and place.last and not place.holds_embedding(config):
        yield "output_layer.weight", partial(_local_tensor, rules(config)[0], read, config, place)


def _local_tensor(rule: Rule, read: Callable[[str], Tensor], config: HFModelConfig, place: Place) -> Tensor:
    rank, size = place.cut_of(rule)
    tensors = [read(spec.name) for spec in rule.hf]
    if cuts_merged(rule, config, size):
        return merge(rule, tensors, config).chunk(size)[rank]
    cuts = [shard(tensor, spec, rule.axis, rank, size) for tensor, spec in zip(tensors, rule.hf, strict=True)]
    return merge(rule, cuts, local_dimensions(config, size))


def local_cuts(rule: Rule, tensor: Tensor, config: HFModelConfig, place: Place) -> list[Tensor]:
    """What one rank holds of each Hugging Face tensor of `rule`; the merged tensor itself when `cuts_merged`."""
    _, size = place.cut_of(rule)
    if cuts_merged(rule, config, size):
        return [tensor.contiguous()]
    return split(rule, tensor, local_dimensions(config, size))
