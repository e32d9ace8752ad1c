"""Gated delta net over packed sequences.

Megatron's module has the weights, their sharding and the chunked delta rule; its forward pass takes neither packed
sequences nor a machine without flash-linear-attention. This one runs groups of like sequences through the same rule.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.ssm import gated_delta_net as megatron_module
from torch import Tensor
from torch.nn import functional

from slime.megatron.attention import like_lengths, stream_of
from slime.megatron.context_parallel import gather_rows, own_rows

L2_EPSILON = 1e-6
"""Under the root of the norm of queries and keys, as transformers and flash-linear-attention have it."""

# The constructor refuses to run without flash-linear-attention, which only its own forward pass calls.
megatron_module.HAVE_FLA = True


class PackedGatedDeltaNet(megatron_module.GatedDeltaNet):
    """Gated DeltaNet (Yang et al., arXiv:2412.06464), equation 10, as Qwen3-Next and Qwen3.5 use it."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
        **unused: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Output [T, 1, hidden] (cut over the sequence when it is sequence-parallel), and no bias."""
        if packed_seq_params is None:
            raise ValueError("the model takes packed sequences; give it the batch's packed_seq_params.")
        projected, _ = self.in_proj(hidden_states)  # [T, 1, all parts], whole sequence
        stream = stream_of(packed_seq_params)
        lengths = stream.lengths
        # The state runs through the whole sequence: context-parallel ranks compute it all, and keep their own rows.
        parts = self._parts(gather_rows(projected[:, 0], stream, self.pg_collection.cp))
        starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
        pieces: list[Tensor | None] = [None] * len(lengths)
        for group in like_lengths(lengths):
            longest = max(lengths[i] for i in group)
            rows = [
                [functional.pad(part[starts[i] : starts[i + 1]], (0, 0, 0, longest - lengths[i])) for i in group]
                for part in parts
            ]
            out = self._attend(*(torch.stack(row) for row in rows))
            for row, index in zip(out, group, strict=True):
                pieces[index] = row[: lengths[index]]
        whole = torch.cat([piece for piece in pieces if piece is not None])
        mixed = own_rows(whole, stream, self.pg_collection.cp)
        result: tuple[Tensor, Tensor | None] = self.out_proj(mixed[:, None])
        return result

    def _parts(self, projected: Tensor) -> tuple[Tensor, ...]:
        """qkv, gate, beta and alpha of [T, ...], the rank's own heads."""
        heads = self.num_value_heads // self.tp_size
        sizes = [(2 * self.qk_dim + self.v_dim) // self.tp_size, self.v_dim // self.tp_size, heads, heads]
        return projected.split(sizes, dim=-1)

    def _attend(self, qkv: Tensor, gate: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
        """[rows, S, values] of sequences that start at column 0; padding at their ends changes nothing before it."""
        rows, length, _ = qkv.shape
        mixed = self.act_fn(self.conv1d(qkv.transpose(1, 2))[..., :length]).transpose(1, 2)
        keys, values = self.qk_dim // self.tp_size, self.v_dim // self.tp_size
        query, key, value = mixed.split([keys, keys, values], dim=-1)
        query, key = (_unit(part.reshape(rows, length, -1, self.key_head_dim)) for part in (query, key))
        copies = self.num_value_heads // self.num_key_heads
        query, key = query.repeat_interleave(copies, dim=2), key.repeat_interleave(copies, dim=2)
        decay = -self.A_log.float().exp() * functional.softplus(alpha.float() + self.dt_bias.float())
        value = value.reshape(rows, length, -1, self.value_head_dim)
        out, _ = megatron_module.torch_chunk_gated_delta_rule(query, key, value, g=decay, beta=beta.sigmoid())
        normed = self.out_norm(out)
        gated = normed.float() * functional.silu(gate.reshape(out.shape).float())
        return gated.to(qkv.dtype).reshape(rows, length, -1)


def _unit(values: Tensor) -> Tensor:
    return values * torch.rsqrt(values.square().sum(-1, keepdim=True) + L2_EPSILON)
