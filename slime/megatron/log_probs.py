"""Log-probabilities and entropies of response tokens from a model's logits, and values from a critic's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from megatron.core import parallel_state
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slime.algorithms.logits import entropy_from_logits, log_probs_from_logits
from slime.megatron.packing import PackedBatch
from slime.megatron.ranks import whole_responses
from slime.megatron.vocab_parallel import token_scores

CHUNK_ELEMENTS = 2**26
"""Logits that one float32 softmax handles at a time: 256 MiB. A chunk is computed again in the backward pass."""


@dataclass(frozen=True)
class TokenScores:
    """Per response token of a micro-batch, in its order, float32.

    Attributes:
        log_probs: [T]; gradient flows through them.
        entropy: [T]; with gradient when that was asked for.
        head_log_probs: [T, k] of the ids that were given, or None; gradient flows through them.
    """

    log_probs: Tensor
    entropy: Tensor
    head_log_probs: Tensor | None


def score_tokens(
    logits: Tensor,
    batch: PackedBatch,
    temperature: float,
    *,
    entropy_gradient: bool = False,
    head_ids: Tensor | None = None,
    chunk_rows: int | None = None,
    recompute: bool = False,
) -> TokenScores:
    """Pick the logits that predict response tokens and score those tokens.

    The softmax runs in chunks of rows: with a vocabulary of 150,000, one float32 copy of all logits would need more
    memory than the model's activations.

    Args:
        logits: [rows, width, vocabulary] of the whole micro-batch.
        temperature: the sampler's; logits are divided by it, so that both sides mean the same distribution.
        entropy_gradient: keep what the gradient of the entropy needs.
        head_ids: int64 [T, k] more ids to score at each position; not with a vocabulary that is cut.
        chunk_rows: of the softmax; None = as many as `CHUNK_ELEMENTS` allows.
        recompute: compute the softmax again in the backward pass even when it is one chunk; several always are.
    """
    chosen = logits.flatten(0, 1).index_select(0, batch.logit_rows)
    rows = chunk_rows or max(1, CHUNK_ELEMENTS // chosen.shape[1])
    if parallel_state.get_tensor_model_parallel_world_size() > 1:
        return _score_cut_vocabulary(chosen, batch, temperature, rows, entropy_gradient)
    ids = batch.targets[:, None]
    if head_ids is not None:
        ids = torch.cat([ids, head_ids if batch.places is None else head_ids[batch.places]], dim=1)
    recompute = (recompute or len(ids) > rows) and torch.is_grad_enabled()
    log_probs, entropies = [], []
    for part, wanted in zip(chosen.split(rows), ids.split(rows), strict=True):
        for_entropy = part if entropy_gradient else part.detach()
        if recompute:
            log_probs.append(checkpoint(log_probs_from_logits, part, wanted, temperature, use_reentrant=False))
            entropies.append(checkpoint(entropy_from_logits, for_entropy, temperature, use_reentrant=False))
        else:
            log_probs.append(log_probs_from_logits(part, wanted, temperature))
            entropies.append(entropy_from_logits(for_entropy, temperature))
    scored = whole_responses(torch.cat(log_probs), batch)
    entropy = whole_responses(torch.cat(entropies), batch)
    return TokenScores(scored[:, 0], entropy, None if head_ids is None else scored[:, 1:])


def _score_cut_vocabulary(
    chosen: Tensor, batch: PackedBatch, temperature: float, rows: int, entropy_gradient: bool
) -> TokenScores:
    """Each tensor-parallel rank has some columns of the logits; the softmax is always computed again."""
    group = parallel_state.get_tensor_model_parallel_group()
    parts = [
        token_scores(part, wanted, temperature, group)
        for part, wanted in zip(chosen.split(rows), batch.targets.split(rows), strict=True)
    ]
    log_probs, entropies = (whole_responses(torch.cat(columns), batch) for columns in zip(*parts, strict=True))
    return TokenScores(log_probs, entropies if entropy_gradient else entropies.detach(), None)


def chunked_log_probs(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Float32 [N] log-probs of int64 `targets` [N] from `logits` [N, vocabulary of this rank], a chunk at a time."""
    rows = max(1, CHUNK_ELEMENTS // logits.shape[1])
    pieces = list(zip(logits.split(rows), targets.split(rows), strict=True))
    if parallel_state.get_tensor_model_parallel_world_size() > 1:
        group = parallel_state.get_tensor_model_parallel_group()
        return torch.cat([token_scores(part, wanted, temperature, group)[0] for part, wanted in pieces])
    if len(pieces) == 1:
        return log_probs_from_logits(logits, targets, temperature)
    found = [checkpoint(log_probs_from_logits, *piece, temperature, use_reentrant=False) for piece in pieces]
    return torch.cat(found)


def token_values(outputs: Tensor, batch: PackedBatch) -> Tensor:
    """The critic's value of the state before each response token, float32 [T].

    Args:
        outputs: [rows, width, 1] of the value head.
    """
    return outputs.flatten(0, 1).index_select(0, batch.logit_rows).squeeze(-1).float()
