"""Training of MTP layers: the block over packed sequences, and its loss, which reaches no other weight.

Megatron's block computes; what it lacks for packed rows stands here. The trunk below it is the policy, which the policy
loss alone trains: hidden states, embedding and output layer come in without their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from megatron.core import parallel_state
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
)
from megatron.core.transformer.multi_token_prediction import MultiTokenPredictionLayer
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from slime.megatron.context_parallel import join_values
from slime.megatron.log_probs import chunked_log_probs
from slime.megatron.packing import Ahead

if TYPE_CHECKING:
    from slime.megatron.model import Decoder


class PackedMTPLayer(MultiTokenPredictionLayer):
    """Megatron's MTP layer: the state of token t and the embedding of token t + 1 predict token t + 2.

    Megatron finds the next tokens by rolling the row on the device, which waits for it once a sequence and, with
    context parallelism, sends two messages a sequence. Here they come with the batch. And its recomputation takes
    tensors alone, not the ends of packed sequences.
    """

    def _get_embeddings(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        embedding: Callable[..., Tensor],
        hidden_states: Tensor,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Next tokens, their positions, their embeddings, and the trunk's states."""
        if packed_seq_params is None or packed_seq_params.ahead is None:
            raise ValueError("an MTP layer takes packed sequences with the tokens ahead; see `slime.megatron.packing`.")
        tokens = packed_seq_params.ahead.tokens
        return tokens, position_ids, embedding(input_ids=tokens, position_ids=position_ids), hidden_states

    def _checkpointed_forward(self, forward_func: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """Computed again in the backward pass with --recompute-method uniform; ``block`` means decoder layers alone."""
        if self.config.recompute_method != "uniform":
            return forward_func(*args, **kwargs)
        result: Tensor = checkpoint(forward_func, *args, use_reentrant=False, **kwargs)
        return result


def logits_ahead(model: Decoder, hidden_states: Tensor, packed: PackedSeqParams, **inputs: Any) -> Tensor:
    """[N, vocabulary of this rank] of the MTP layer, for the N tokens of ``packed.ahead``.

    Args:
        hidden_states: [width, 1, hidden], of the decoder after its last norm (this rank's part when it is cut).
        inputs: the others of Megatron's MTP block.
    """

    def embed(**ids: Tensor) -> Tensor:
        with torch.no_grad():
            embedded: Tensor = model.embedding(**ids)
        return embedded

    states = model.mtp(hidden_states=hidden_states.detach(), packed_seq_params=packed, embedding=embed, **inputs)
    state = states.chunk(1 + len(model.mtp.layers))[-1]
    # Every tensor-parallel rank has a part of the vocabulary, so the gradients of the state add up over them.
    group = parallel_state.get_tensor_model_parallel_group()
    if model.config.sequence_parallel:
        state = gather_from_sequence_parallel_region(state, group=group)
    else:
        state = copy_to_tensor_model_parallel_region(state, group)
    head = model.shared_embedding_or_output_weight() if model.share_embeddings_and_output_weights else None
    weight = model.output_layer.weight if head is None else head
    return functional.linear(state[:, 0].index_select(0, packed.ahead.rows), weight.detach())


def loss_ahead(logits: Tensor, ahead: Ahead, trained: Tensor, count: int, temperature: float) -> Tensor:
    """Share of this micro-batch in the step's mean of -log p over the tokens that train; a scalar on every rank.

    A token with one token alone before it cannot be predicted by the layer and counts 0.

    Args:
        trained: bool [T], which response tokens train.
        count: such tokens of the whole step.
        temperature: the sampler's.
    """
    log_probs = chunked_log_probs(logits, ahead.targets, temperature)
    own = -(log_probs * trained[ahead.places]).sum() / count
    here = torch.zeros(1, dtype=torch.int64, device=own.device)
    return join_values(own[None], here, 1, parallel_state.get_context_parallel_group())[0]
