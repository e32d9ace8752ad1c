"""Log-probabilities and entropies of response tokens from a model's logits."""

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
    """Per response token of a micro-batch, in its order, float32 [T]. Gradients flow through `log_probs` alone."""

    log_probs: Tensor
    entropy: Tensor


def score_tokens(
    logits: Tensor, batch: PackedBatch, temperature: float, chunk_elements: int = CHUNK_ELEMENTS
) -> TokenScores:
    """Pick the logits that predict response tokens and score those tokens.

    The softmax runs in chunks of rows: with a vocabulary of 150,000, one float32 copy of all logits would need more
    memory than the model's activations.

    Args:
        logits: [rows, width, vocabulary] of the whole micro-batch.
        temperature: the sampler's; logits are divided by it, so that both sides mean the same distribution.
    """
    chosen = logits.flatten(0, 1).index_select(0, batch.logit_rows)
    rows = max(1, chunk_elements // chosen.shape[1])
    log_probs, entropies = [], []
    for part, targets in zip(chosen.split(rows), batch.targets.split(rows), strict=True):
        if len(batch.targets) > rows and torch.is_grad_enabled():
            log_probs.append(checkpoint(log_probs_from_logits, part, targets, temperature, use_reentrant=False))
        else:
            log_probs.append(log_probs_from_logits(part, targets, temperature))
        entropies.append(entropy_from_logits(part.detach(), temperature))
    return TokenScores(torch.cat(log_probs), torch.cat(entropies))
