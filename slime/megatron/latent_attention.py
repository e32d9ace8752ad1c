"""Multi-head latent attention of packed sequences under tensor parallelism.

Megatron's module has the weights and the projections. Its key of the rotating channels, one for all heads, is used by
every tensor-parallel rank for its own heads, and 0.16.1 does not add up the gradients of those uses: with two ranks the
gradient of ``linear_kv_down_proj`` is wrong by 40 % of its norm.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_tensor_model_parallel_region,
    scatter_to_sequence_parallel_region,
)
from megatron.core.transformer.multi_latent_attention import MLASelfAttention
from torch import Tensor

from slime.megatron.rotary import rotate


class LatentAttention(MLASelfAttention):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), without absorption."""

    def get_query_key_value_tensors(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        position_ids: Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
        inference_context: Any = None,
        *,
        inference_params: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Query and key [T, heads, nope + rope], value [T, heads, value], and the compressed query and key-value."""
        if packed_seq_params is None:
            raise ValueError("the model takes packed sequences; give it the batch's packed_seq_params.")
        config = self.config
        compressed_query = hidden_states[:, 0]
        if config.q_lora_rank is not None:
            down = gather_from_tensor_model_parallel_region(self.linear_q_down_proj(hidden_states)[0], self.tp_group)
            compressed_query = self.q_layernorm(self._sequence_part(down[:, 0]))
        both = gather_from_tensor_model_parallel_region(self.linear_kv_down_proj(hidden_states)[0], self.tp_group)
        compressed, rotating = both[:, 0].split([config.kv_lora_rank, config.qk_pos_emb_head_dim], dim=-1)
        compressed = self.kv_layernorm(self._sequence_part(compressed))
        # Every rank needs it for its own heads: the gradients add up.
        rotating = copy_to_tensor_model_parallel_region(rotating, self.tp_group)[:, None]

        project = self.linear_q_proj if config.q_lora_rank is None else self.linear_q_up_proj
        heads = self.num_attention_heads_per_partition
        query = project(compressed_query)[0].unflatten(-1, (heads, self.q_head_dim))
        key_value = self.linear_kv_up_proj(compressed)[0].unflatten(-1, (heads, -1))
        still_query, moving_query = query.split([config.qk_head_dim, config.qk_pos_emb_head_dim], dim=-1)
        still_key, value = key_value.split([config.qk_head_dim, config.v_head_dim], dim=-1)
        moving_query, moving_key = (
            self._rotated(moving_query, packed_seq_params),
            self._rotated(rotating, packed_seq_params),
        )
        query = torch.cat([still_query, moving_query], dim=-1)
        key = torch.cat([still_key, moving_key.expand(-1, heads, -1)], dim=-1)
        return query, key, value, compressed_query, compressed

    def _sequence_part(self, values: Tensor) -> Tensor:
        """Down projections return the whole sequence; what follows takes this rank's part when it is cut."""
        if not self.config.sequence_parallel:
            return values
        part: Tensor = scatter_to_sequence_parallel_region(values, self.tp_group)
        return part

    def _rotated(self, values: Tensor, packed: PackedSeqParams) -> Tensor:
        angles, scale = self.rotary_pos_emb(packed.max_seqlen_q, packed_seq=True), 1.0
        if self.config.rope_type == "yarn":
            angles, scale = angles
        return rotate(values, angles, packed, self.config, scale)
