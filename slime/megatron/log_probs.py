"""Log-probabilities and entropies of response tokens from a model's logits, and values from a critic's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slime.algorithms.logits import entropy_from_logits, log_probs_from_logits
from slime.megatron.packing import PackedBatch

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
    chunk_elements: int = CHUNK_ELEMENTS,
) -> TokenScores:
    """Pick the logits that predict response tokens and score those tokens.

    The softmax runs in chunks of rows: with a vocabulary of 150,000, one float32 copy of all logits would need more
    memory than the model's activations.

    Args:
        logits: [rows, width, vocabulary] of the whole micro-batch.
        temperature: the sampler's; logits are divided by it, so that both sides mean the same distribution.
        entropy_gradient: keep what the gradient of the entropy needs.
        head_ids: int64 [T, k] more ids to score at each position.
    """
    chosen = logits.flatten(0, 1).index_select(0, batch.logit_rows)
    rows = max(1, chunk_elements // chosen.shape[1])
    ids = batch.targets[:, None] if head_ids is None else torch.cat([batch.targets[:, None], head_ids], dim=1)
    recompute = len(ids) > rows and torch.is_grad_enabled()
    log_probs, entropies = [], []
    for part, wanted in zip(chosen.split(rows), ids.split(rows), strict=True):
        for_entropy = part if entropy_gradient else part.detach()
        if recompute:
            log_probs.append(checkpoint(log_probs_from_logits, part, wanted, temperature, use_reentrant=False))
            entropies.append(checkpoint(entropy_from_logits, for_entropy, temperature, use_reentrant=False))
        else:
            log_probs.append(log_probs_from_logits(part, wanted, temperature))
            entropies.append(entropy_from_logits(for_entropy, temperature))
    scored = torch.cat(log_probs)
    return TokenScores(scored[:, 0], torch.cat(entropies), None if head_ids is None else scored[:, 1:])


def token_values(outputs: Tensor, batch: PackedBatch) -> Tensor:
    """The critic's value of the state before each response token, float32 [T].

    Args:
        outputs: [rows, width, 1] of the value head.
    """
    return outputs.flatten(0, 1).index_select(0, batch.logit_rows).squeeze(-1).float()
