"""Rotary position embedding of a packed row: every token is turned by its own position, wherever a rank has it.

Megatron's finds the positions from the ends of the sequences, and knows one way to share them among context-parallel
ranks. Here they come with the batch (``packed.positions``), so that any way is right.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from megatron.core.models.common.embeddings import apply_rotary_pos_emb
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer.attention import SelfAttention
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor


def rotate(
    values: Tensor, angles: Tensor, packed: PackedSeqParams, config: TransformerConfig, scale: float = 1.0
) -> Tensor:
    """`values` [T, heads, channels] turned by `angles` [positions, 1, 1, channels] of their positions.

    Args:
        scale: of the result (YaRN, arXiv:2309.00071, section 3.4).
    """
    own = angles[packed.positions]
    turned: Tensor = apply_rotary_pos_emb(values[:, None], own, config=config, mscale=scale)
    return turned[:, 0]


class _Alone:
    """Stands for a context-parallel group where a row is looked at as one rank has it."""

    def size(self) -> int:
        """One rank."""
        return 1

    def rank(self) -> int:
        """The first."""
        return 0


class PackedSelfAttention(SelfAttention):
    """Megatron's self-attention; it turns queries and keys by angles that are those of its own rows already."""

    pg_collection: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.pg_collection = copy(self.pg_collection)
        self.pg_collection.cp = _Alone()

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None,
        rotary_pos_emb: Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Output [T, 1, hidden] (cut over the sequence when it is sequence-parallel), and its bias."""
        if packed_seq_params is None:
            raise ValueError("the model takes packed sequences; give it the batch's packed_seq_params.")
        own = None if rotary_pos_emb is None else rotary_pos_emb[packed_seq_params.positions]
        result: tuple[Tensor, Tensor | None] = super().forward(
            hidden_states, attention_mask, rotary_pos_emb=own, packed_seq_params=packed_seq_params, **options
        )
        return result


def one_row(width: int, device: torch.device) -> Tensor:
    """Ends for `PackedSelfAttention`'s rotation, which then takes angles row by row: int32 [0, width]."""
    return torch.tensor([0, width], dtype=torch.int32, device=device)
