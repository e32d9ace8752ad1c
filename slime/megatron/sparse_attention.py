"""DeepSeek sparse attention over packed sequences, with the choice of keys shared between layers (GLM-5).

Megatron's DSAttention takes neither packed sequences nor shared choices, and rotates the indexer's vectors by a CUDA
kernel; that rotation is orthogonal, so that no score depends on it, and it is left out here.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.models.common.embeddings import RotaryEmbedding
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import MLATransformerConfig
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from slime.megatron.attention import stream_of
from slime.megatron.context_parallel import Run, gather_rows
from slime.megatron.rotary import rotate

QUERY_CHUNK = 1024
"""Queries that attend at a time: scores take memory for the chunk times the sequence, not for the sequence squared."""

NORM_EPSILON = 1e-6
"""Of the layer norm on the indexer's keys, whatever the model's is."""


class Indexer(nn.Module):
    """Scores keys for each query with a few small heads. Names of weights are those of Megatron's DSAIndexer.

    Every tensor-parallel rank has all of it and computes the same choice.
    """

    def __init__(self, config: MLATransformerConfig, cp_group: Any) -> None:
        super().__init__()
        self.config = config
        self.heads, self.head_dim = config.dsa_indexer_n_heads, config.dsa_indexer_head_dim
        dtype = config.params_dtype
        rank = config.q_lora_rank or config.hidden_size
        self.linear_wq_b = nn.Linear(rank, self.heads * self.head_dim, bias=False, dtype=dtype)
        self.linear_wk = nn.Linear(config.hidden_size, self.head_dim, bias=False, dtype=dtype)
        self.k_norm = nn.LayerNorm(self.head_dim, eps=NORM_EPSILON, dtype=dtype)
        self.linear_weights_proj = nn.Linear(config.hidden_size, self.heads, bias=False, dtype=dtype)
        self.rotary = RotaryEmbedding(
            config.qk_pos_emb_head_dim, rotary_percent=1.0, rotary_base=config.rotary_base, cp_group=cp_group
        )
        self._cp_group = cp_group

    @torch.no_grad()
    def forward(self, hidden: Tensor, latent: Tensor, packed: PackedSeqParams) -> list[Tensor]:
        """For each run of queries int64 [count, min(topk, length)]: positions of the keys chosen for each of them.

        Args:
            hidden: [T, hidden], the layer's normed input.
            latent: [T, q rank], the compressed query.
        """
        query = self.linear_wq_b(latent).view(-1, self.heads, self.head_dim)
        key = self.k_norm(self.linear_wk(hidden))[:, None]
        query, key = (self._rotated(part, packed) for part in (query, key))
        weights = self.linear_weights_proj(hidden).float() * (self.heads * self.head_dim) ** -0.5
        stream = stream_of(packed)
        keys = gather_rows(key[:, 0], stream, self._cp_group)
        runs = stream.runs(self._cp_group.rank(), self._cp_group.size())
        counts = [run.count for run in runs]
        pieces = zip(query.split(counts), weights.split(counts), runs, strict=True)
        return [self._choose(*piece[:2], keys[piece[2].whole], piece[2]) for piece in pieces]

    def _rotated(self, values: Tensor, packed: PackedSeqParams) -> Tensor:
        """`values` with their last channels rotated; the rotating ones come last, see Layout.ROPE_LAST."""
        rope = self.config.qk_pos_emb_head_dim
        still, moving = values.split([self.head_dim - rope, rope], dim=-1)
        angles = self.rotary(packed.max_seqlen_q, packed_seq=True)
        return torch.cat([still, rotate(moving, angles, packed, self.config)], dim=-1)

    def _choose(self, query: Tensor, weights: Tensor, key: Tensor, run: Run) -> Tensor:
        positions = run.positions(key.device)
        limit = min(self.config.dsa_indexer_topk, len(key))
        chosen = []
        for start in range(0, len(query), QUERY_CHUNK):
            rows = slice(start, start + QUERY_CHUNK)
            scores = torch.einsum("qhc,kc->qhk", query[rows].float(), key.float()).relu()
            scores = torch.einsum("qhk,qh->qk", scores, weights[rows])
            scores = scores.masked_fill(_future(positions[rows], key), float("-inf"))
            chosen.append(scores.topk(limit, dim=-1).indices)
        return torch.cat(chosen)


def choices(packed: PackedSeqParams) -> dict[int, list[Tensor]]:
    """Choices, for each run of this rank's queries, by the layer that made them.

    They belong to the micro-batch: when a layer is computed again in the backward pass, others have been computed
    since, of this micro-batch and of others.
    """
    found: dict[int, list[Tensor]] | None = getattr(packed, "chosen_keys", None)
    if found is None:
        found = packed.chosen_keys = {}
    return found


def _future(positions: Tensor, key: Tensor) -> Tensor:
    """bool [queries, keys]: True where a key comes after the query."""
    return torch.arange(len(key), device=key.device) > positions[:, None]


class SparseAttention(MegatronModule):
    """Attention of each query to the keys that the indexer chose, and to no other.

    The indexer learns nothing here: its scores reach the loss only through which keys are chosen. So it stays as it is,
    unless its tensors are trained by an objective of their own.

    Args:
        source: the layer whose indexer chooses, zero-based over the whole model.
        computes: it is this layer.
    """

    def __init__(
        self,
        config: MLATransformerConfig,
        layer_number: int,
        source: int,
        computes: bool,
        softmax_scale: float | None = None,
        k_channels: int | None = None,
        pg_collection: Any = None,
        **unused: Any,
    ) -> None:
        super().__init__(config=config)
        self.source = source
        self.indexer = Indexer(config, pg_collection.cp) if computes else None
        self.scale = softmax_scale or (k_channels or config.kv_channels) ** -0.5
        self._tp_group, self._cp_group = pg_collection.tp, pg_collection.cp

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        x: Tensor,
        qr: Tensor,
        attn_mask_type: Any = None,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> Tensor:
        """[T, heads, value channels]. `x` [T, 1, hidden] and `qr` [T, q rank] feed the indexer."""
        if packed_seq_params is None:
            raise ValueError("the model takes packed sequences; give it the batch's packed_seq_params.")
        if self.indexer is not None:
            hidden, latent = x.detach()[:, 0], qr.detach()
            if self.config.sequence_parallel:
                hidden = gather_from_sequence_parallel_region(hidden, group=self._tp_group)
                latent = gather_from_sequence_parallel_region(latent, group=self._tp_group)
            choices(packed_seq_params)[self.source] = self.indexer(hidden, latent, packed_seq_params)
        stream = stream_of(packed_seq_params)
        key, value = (gather_rows(part, stream, self._cp_group) for part in (key, value))
        runs = stream.runs(self._cp_group.rank(), self._cp_group.size())
        parts = zip(
            query.split([run.count for run in runs]), choices(packed_seq_params)[self.source], runs, strict=True
        )
        return torch.cat(
            [self._attend(part, key[run.whole], value[run.whole], chosen, run) for part, chosen, run in parts]
        )

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, chosen: Tensor, run: Run) -> Tensor:
        chunks, positions = [], run.positions(key.device)
        for start in range(0, len(query), QUERY_CHUNK):
            rows = slice(start, start + QUERY_CHUNK)
            inputs = (query[rows], key, value, chosen[rows], positions[rows])
            if torch.is_grad_enabled() and len(query) > QUERY_CHUNK:
                chunks.append(checkpoint(self._attend_chunk, *inputs, use_reentrant=False))
            else:
                chunks.append(self._attend_chunk(*inputs))
        return torch.cat(chunks)

    def _attend_chunk(self, query: Tensor, key: Tensor, value: Tensor, chosen: Tensor, positions: Tensor) -> Tensor:
        seen = torch.zeros(len(query), len(key), dtype=torch.bool, device=query.device).scatter(1, chosen, True)
        seen &= ~_future(positions, key)
        query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        out = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=self.scale)
        return out.transpose(0, 1)
