"""Core attention over packed sequences of different lengths, on CPU and GPU, without a mask of all tokens squared.

Megatron's own DotProductAttention takes rectangles alone; its packed attention needs Transformer Engine. Queries, keys
and values arrive as [tokens, heads, channels] with the ends of the sequences (``qkv_format="thd"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor
from torch.nn import functional

from slime.megatron.context_parallel import Run, Stream, gather_rows

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # before torch 2.11
    varlen_attn = None

KERNEL_DTYPES = (torch.bfloat16, torch.float16)
"""What torch's kernel for packed sequences takes."""

PADDING_SHARE = 0.25
"""Sequences attend in one rectangle while at most this share of it is padding."""


class PackedAttention(MegatronModule):
    """Causal attention of each sequence to itself. Has no weights.

    Args:
        softmax_scale: of the scores; None = 1 / sqrt(channels of a key).
        k_channels, v_channels: of a head, when they differ from ``config.kv_channels`` (latent attention).
    """

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: Any = None,
        attention_type: str = "self",
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        k_channels: int | None = None,
        v_channels: int | None = None,
        cp_comm_type: str | None = None,
        pg_collection: Any = None,
    ) -> None:
        super().__init__(config=config)
        self.layer_number = layer_number
        self.scale = softmax_scale or (k_channels or config.kv_channels) ** -0.5
        self._cp_group = pg_collection.cp

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> Tensor:
        """[T, heads, value channels] from `query` [T, heads, c], `key` [T, groups, c] and `value` [T, groups, v]."""
        if packed_seq_params is None:
            raise ValueError("the model takes packed sequences; give it the batch's packed_seq_params.")
        if self.config.context_parallel_size > 1:
            stream = stream_of(packed_seq_params)
            whole = gather_rows(torch.stack(_equal_channels(key, value), dim=1), stream, self._cp_group)
            runs = stream.runs(self._cp_group.rank(), self._cp_group.size())
            return attend_runs(query, whole[:, 0], whole[:, 1], runs, self.scale)[..., : value.shape[-1]]
        if varlen_attn is not None and query.is_cuda and query.dtype in KERNEL_DTYPES:
            return _flash(query, key, value, packed_seq_params, self.scale)
        return attend(query, key, value, sequence_lengths(packed_seq_params), self.scale)


def sequence_lengths(packed: PackedSeqParams) -> list[int]:
    """Tokens of each packed sequence. Kept on the parameters: reading them from a GPU would wait for it each layer."""
    known: list[int] | None = getattr(packed, "lengths", None)
    if known is None:
        ends = packed.cu_seqlens_q.tolist()
        known = [end - start for start, end in pairwise(ends)]
        packed.lengths = known
    return known


def stream_of(packed: PackedSeqParams) -> Stream:
    """The sequences, and how context-parallel ranks share them."""
    return Stream(tuple(sequence_lengths(packed)), getattr(packed, "contiguous", False))


def _flash(query: Tensor, key: Tensor, value: Tensor, packed: PackedSeqParams, scale: float) -> Tensor:
    channels = value.shape[-1]
    key, value = _shared_heads(query, key, value)
    query, key, value = (part.contiguous() for part in _equal_channels(query, key, value))
    ends, longest = packed.cu_seqlens_q, packed.max_seqlen_q
    result: Tensor = varlen_attn(query, key, value, ends, ends, longest, longest, scale=scale, window_size=(-1, 0))
    return result[..., :channels]


def _shared_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values once for every query head."""
    copies = query.shape[1] // key.shape[1]
    if copies == 1:
        return key, value
    return key.repeat_interleave(copies, dim=1), value.repeat_interleave(copies, dim=1)


def _equal_channels(*tensors: Tensor) -> list[Tensor]:
    """Zero channels until all have the same number: the kernels ask for that, and zeros change nothing."""
    widest = max(tensor.shape[-1] for tensor in tensors)
    return [functional.pad(tensor, (0, widest - tensor.shape[-1])) for tensor in tensors]


def attend(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int], scale: float) -> Tensor:
    """Causal attention within each of the packed sequences, by torch's scaled dot product.

    Sequences of like length attend in one rectangle, the shorter ones padded at their ends, where causal attention
    never looks.
    """
    channels = value.shape[-1]
    key, value = _shared_heads(query, key, value)
    stacked = torch.stack(_equal_channels(query, key, value))  # [3, T, heads, c]
    starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
    pieces: list[Tensor | None] = [None] * len(lengths)
    for group in like_lengths(lengths):
        longest = max(lengths[i] for i in group)
        rows = [_filled(stacked[:, starts[i] : starts[i + 1]], longest) for i in group]
        q, k, v = torch.stack(rows, dim=1).transpose(2, 3)  # each [rows, heads, longest, c]
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale).transpose(1, 2)
        for row, index in zip(out, group, strict=True):
            pieces[index] = row[: lengths[index]]
    return torch.cat([piece for piece in pieces if piece is not None])[..., :channels]


def attend_runs(query: Tensor, key: Tensor, value: Tensor, runs: Sequence[Run], scale: float) -> Tensor:
    """Causal attention of this rank's queries [T / size, ...], which are `runs`, to keys and values [T, ...] of all."""
    key, value = _shared_heads(query, key, value)
    channels = value.shape[-1]
    query, key, value = _equal_channels(query, key, value)
    parts = query.split([run.count for run in runs])
    pieces = [_attend_past(part, key[run.past], value[run.past], scale) for part, run in zip(parts, runs, strict=True)]
    return torch.cat(pieces)[..., :channels]


def _attend_past(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The queries are those of the last positions of the keys."""
    rows, length = len(query), len(key)
    seen = torch.ones(rows, length, dtype=torch.bool, device=query.device).tril(length - rows)
    q, k, v = (part.transpose(0, 1) for part in (query, key, value))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale).transpose(0, 1)


def _filled(part: Tensor, length: int) -> Tensor:
    """[3, length, heads, channels] with zeros behind the tokens of `part`."""
    return functional.pad(part, (0, 0, 0, 0, 0, length - part.shape[1]))


def like_lengths(lengths: Sequence[int], share: float = PADDING_SHARE) -> Iterator[list[int]]:
    """Indices of `lengths` in groups, by falling length, of which at most `share` is padding."""
    group: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        area = lengths[group[0]] * (len(group) + 1) if group else 0
        if group and area - tokens - lengths[index] > share * area:
            yield group
            group, tokens = [], 0
        group.append(index)
        tokens += lengths[index]
    if group:
        yield group
