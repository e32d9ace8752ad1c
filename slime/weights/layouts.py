"""How one Megatron tensor is made of Hugging Face tensors, and back. Everything moves and nothing is computed.

Every layout is defined on the tensors of *one* tensor-parallel rank: first each Hugging Face tensor is cut along its
own axis (`shard`), then the cuts are merged with the rank's own number of heads. So the same two functions serve one
process and any tensor parallelism.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slime.weights.dimensions import HFModelConfig


class Layout(enum.Enum):
    """How a Megatron tensor is made of Hugging Face tensors.

    Members:
        SAME: one tensor, as it is.
        CONCAT: stacked along the first axis.
        QKV: rows group by group: a group's query heads, its key head, its value head, `head_dim` rows each.
        GATED_QKV: as QKV, with the gates of a group's query heads after those heads; Hugging Face's ``q_proj`` holds
            each head's query and then its gate.
        ROPE_LAST: each head's rotating channels come first in Hugging Face's tensor and last in Megatron's.
        GROUPED_LINEAR: Qwen3-Next's ``in_proj_qkvz`` and ``in_proj_ba``, whose rows stand key head by key head, against
            all queries, all keys, all values, all gates, then beta and alpha.
    """

    SAME = "same"
    CONCAT = "concat"
    QKV = "qkv"
    GATED_QKV = "gated_qkv"
    ROPE_LAST = "rope_last"
    GROUPED_LINEAR = "grouped_linear"


@dataclass(frozen=True)
class HFTensor:
    """One tensor of the checkpoint.

    Attributes:
        sections: rows of the parts that it stacks, when there are several; each part is cut for itself.
    """

    name: str
    shape: tuple[int, ...]
    sections: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One Megatron tensor and the Hugging Face tensors that it holds, in order.

    Attributes:
        megatron: name in a model on one process; layers and experts are counted over the whole model.
        axis: the axis along which tensor parallelism cuts each Hugging Face tensor; None = every rank has all of it.
        layer: zero-based decoder layer; None before and after the layers.
        expert: zero-based expert; expert tensor parallelism cuts it then.
    """

    megatron: str
    hf: tuple[HFTensor, ...]
    layout: Layout = Layout.SAME
    axis: int | None = None
    layer: int | None = None
    expert: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the Hugging Face tensors."""
        return tuple(tensor.name for tensor in self.hf)


def local_dimensions(config: HFModelConfig, size: int) -> HFModelConfig:
    """`config` with the heads of one of `size` tensor-parallel ranks."""
    if size == 1:
        return config
    linear = config.linear
    if linear is not None:
        linear = replace(linear, key_heads=linear.key_heads // size, value_heads=linear.value_heads // size)
    return replace(config, heads=config.heads // size, groups=max(1, config.groups // size), linear=linear)


def cuts_merged(rule: Rule, config: HFModelConfig, size: int) -> bool:
    """True when the merged tensor is cut: with fewer key-value heads than ranks, Megatron cuts through a group."""
    return rule.layout in (Layout.QKV, Layout.GATED_QKV) and config.groups < size


def shard(tensor: Tensor, spec: HFTensor, axis: int | None, rank: int, size: int) -> Tensor:
    """The cut of `tensor` that tensor-parallel `rank` of `size` has."""
    if axis is None or size == 1:
        return tensor
    if not spec.sections or axis != 0:
        return tensor.chunk(size, dim=axis)[rank]
    return torch.cat([part.chunk(size)[rank] for part in tensor.split(list(spec.sections))])


def unshard(cuts: Sequence[Tensor], spec: HFTensor, axis: int | None) -> Tensor:
    """The whole tensor from the cuts of all ranks, in their order; inverse of `shard`."""
    if axis is None or len(cuts) == 1:
        return cuts[0]
    if not spec.sections or axis != 0:
        return torch.cat(list(cuts), dim=axis)
    rows = [section // len(cuts) for section in spec.sections]
    parts = zip(*(cut.split(rows) for cut in cuts), strict=True)
    return torch.cat([cut for part in parts for cut in part])


def merge(rule: Rule, tensors: Sequence[Tensor], config: HFModelConfig) -> Tensor:
    """The Megatron tensor of `rule` from its Hugging Face tensors; `config` has the heads that they hold."""
    layout = rule.layout
    if layout is Layout.SAME:
        return tensors[0]
    if layout is Layout.CONCAT:
        return torch.cat(list(tensors))
    rest = tensors[0].shape[1:]
    if layout is Layout.QKV:
        parts = [tensor.reshape(config.groups, -1, *rest) for tensor in tensors]
        return torch.cat(parts, dim=1).reshape(-1, *rest)
    if layout is Layout.GATED_QKV:
        per_head = tensors[0].reshape(config.groups, -1, 2, config.head_dim, *rest)
        query = per_head.transpose(1, 2).reshape(config.groups, -1, *rest)
        others = [tensor.reshape(config.groups, -1, *rest) for tensor in tensors[1:]]
        return torch.cat([query, *others], dim=1).reshape(-1, *rest)
    if layout is Layout.ROPE_LAST:
        rope, rest_rows = _index_rows(config)
        return _swapped(tensors[0], rope, rest_rows)
    qkvz, ba = (list(_linear_parts(tensor, sizes, config)) for tensor, sizes in _linear_sizes(tensors, config))
    return torch.cat([*qkvz, *ba])


def split(rule: Rule, tensor: Tensor, config: HFModelConfig) -> list[Tensor]:
    """The Hugging Face tensors of `rule` from its Megatron tensor; inverse of `merge`. All are contiguous."""
    return [part.contiguous() for part in _split(rule, tensor, config)]


def _split(rule: Rule, tensor: Tensor, config: HFModelConfig) -> Sequence[Tensor]:
    layout = rule.layout
    if layout is Layout.SAME:
        return [tensor]
    if layout is Layout.CONCAT:
        whole = sum(spec.shape[0] for spec in rule.hf)
        return tensor.split([spec.shape[0] * len(tensor) // whole for spec in rule.hf])
    rest = tensor.shape[1:]
    queries = config.heads // config.groups * config.head_dim
    if layout is Layout.QKV:
        parts = tensor.reshape(config.groups, -1, *rest).split([queries, config.head_dim, config.head_dim], dim=1)
        return [part.reshape(-1, *rest) for part in parts]
    if layout is Layout.GATED_QKV:
        sizes = [2 * queries, config.head_dim, config.head_dim]
        query, key, value = tensor.reshape(config.groups, -1, *rest).split(sizes, dim=1)
        per_head = query.reshape(config.groups, 2, -1, config.head_dim, *rest).transpose(1, 2)
        return [per_head.reshape(-1, *rest), key.reshape(-1, *rest), value.reshape(-1, *rest)]
    if layout is Layout.ROPE_LAST:
        rope, rest_rows = _index_rows(config)
        return [_swapped(tensor, rest_rows, rope)]
    return _split_linear(tensor, config)


def _index_rows(config: HFModelConfig) -> tuple[int, int]:
    """Rotating and other channels of an indexer head."""
    if config.sparse is None or config.latent is None:
        raise ValueError(f"{config.family} has no indexer.")
    return config.latent.rope, config.sparse.head_dim - config.latent.rope


def _swapped(tensor: Tensor, first: int, second: int) -> Tensor:
    """Every block of ``first + second`` rows with its two parts exchanged."""
    blocks = tensor.reshape(-1, first + second, *tensor.shape[1:])
    return torch.cat([blocks[:, first:], blocks[:, :first]], dim=1).reshape(tensor.shape)


def linear_rows(config: HFModelConfig) -> tuple[int, int, int]:
    """Rows of all keys (as many as of all queries), of all values, and value heads of a gated delta net."""
    if config.linear is None:
        raise ValueError(f"{config.family} has no linear attention.")
    linear = config.linear
    return linear.key_heads * linear.key_dim, linear.value_heads * linear.value_dim, linear.value_heads


def _linear_sizes(tensors: Sequence[Tensor], config: HFModelConfig) -> list[tuple[Tensor, list[int]]]:
    """The two grouped tensors with the rows that one key head has of each part."""
    keys, values, heads = linear_rows(config)
    groups = config.linear.key_heads if config.linear else 1
    return [
        (tensors[0], [keys // groups, keys // groups, values // groups, values // groups]),
        (tensors[1], [heads // groups, heads // groups]),
    ]


def _linear_parts(tensor: Tensor, sizes: list[int], config: HFModelConfig) -> list[Tensor]:
    rest = tensor.shape[1:]
    return [part.reshape(-1, *rest) for part in tensor.reshape(-1, sum(sizes), *rest).split(sizes, dim=1)]


def _split_linear(tensor: Tensor, config: HFModelConfig) -> list[Tensor]:
    keys, values, heads = linear_rows(config)
    groups = config.linear.key_heads if config.linear else 1
    rest = tensor.shape[1:]
    parts = [part.reshape(groups, -1, *rest) for part in tensor.split([keys, keys, values, values, heads, heads])]
    return [torch.cat(parts[:4], dim=1).reshape(-1, *rest), torch.cat(parts[4:], dim=1).reshape(-1, *rest)]
