"""Log-probabilities and entropy of one unsharded vocabulary. Temperature scales logits as it does in the sampler."""

from __future__ import annotations

import torch
from torch import Tensor


def log_probs_from_logits(logits: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probability of each target id, in float32.

    Args:
        logits: [T, V], any float dtype.
        targets: integer ids, [T] for one a row or [T, k] for several.
        temperature: the sampler's; must be above 0, since greedy decoding has no distribution to train on.

    Returns:
        Float32 (float64 for float64 logits), in the shape of `targets`.

    Raises:
        ValueError: if `temperature` is not above 0.
    """
    scores = _scaled(logits, temperature)
    ids = targets[:, None] if targets.dim() == 1 else targets
    found = scores.gather(-1, ids) - torch.logsumexp(scores, dim=-1, keepdim=True)
    return found.reshape(targets.shape)


def entropy_from_logits(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy ``H = log sum exp z - sum p z`` of each row, in nats.

    Args:
        logits: [T, V], any float dtype.
        temperature: the sampler's; must be above 0.

    Returns:
        [T] float32 (float64 for float64 logits).

    Raises:
        ValueError: if `temperature` is not above 0.
    """
    scores = _scaled(logits, temperature)
    return torch.logsumexp(scores, dim=-1) - (scores.softmax(dim=-1) * scores).sum(dim=-1)


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}; training needs a value above 0, usually 1.0.")
    # bfloat16 keeps 8 bits: a log-softmax in it would be off by more than the clip range.
    return (logits if logits.dtype == torch.float64 else logits.float()) / temperature
