"""Log-probabilities and entropies from logits whose vocabulary is cut over the tensor-parallel ranks.

Never more than one row chunk of float32 logits is held besides the logits themselves, and only sums over rows travel.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Scores(torch.autograd.Function):
    """log p(target) and entropy of softmax(logits / temperature), with the gradients of both.

    With p the softmax and l = log p: d log p(t) / d logit_i = (1[i = t] - p_i) / temperature, and for the entropy
    H = -sum p l, dH / d logit_i = -p_i (l_i + H) / temperature.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, temperature: float, group: Any) -> tuple[Tensor, Tensor]:
        """[T] and [T] from this rank's columns [T, V / size] of the logits."""
        scaled, inside, local = _prepare(logits, targets, temperature, group)
        top = scaled.amax(-1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
        shifted = scaled - top[:, None]
        weights = shifted.exp()
        chosen = torch.where(inside, shifted.gather(1, local[:, None])[:, 0], 0.0)
        sums = torch.stack([weights.sum(-1), (weights * shifted).sum(-1), chosen])
        dist.all_reduce(sums, group=group)
        total, weighted, picked = sums
        log_total = total.log()
        entropy = log_total - weighted / total
        ctx.save_for_backward(logits, targets, top, log_total, entropy)
        ctx.temperature, ctx.group = temperature, group
        return picked - log_total, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Of this rank's columns; the softmax is made again from the logits."""
        logits, targets, top, log_total, entropy = ctx.saved_tensors
        scaled, inside, local = _prepare(logits, targets, ctx.temperature, ctx.group)
        log_p = scaled - (top + log_total)[:, None]
        p = log_p.exp()
        of_log_prob, of_entropy = gradients
        result = -p * of_log_prob[:, None]
        result -= p * (log_p + entropy[:, None]) * of_entropy[:, None]
        result.scatter_add_(1, local[:, None], (of_log_prob * inside)[:, None])
        return (result / ctx.temperature).to(logits.dtype), None, None, None


def _prepare(logits: Tensor, targets: Tensor, temperature: float, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Scaled float32 logits, which targets lie in this rank's part, and where."""
    width = logits.shape[1]
    first = dist.get_rank(group) * width
    scaled = logits.float() / temperature
    local = targets - first
    inside = (local >= 0) & (local < width)
    return scaled, inside, local.clamp(0, width - 1)


def token_scores(logits: Tensor, targets: Tensor, temperature: float, group: Any) -> tuple[Tensor, Tensor]:
    """log p(target) and entropy, float32 [T] each, on every rank; gradients flow through both.

    Args:
        logits: [T, width], this rank's columns of the vocabulary.
        targets: int64 [T], ids of the whole vocabulary.
        temperature: logits are divided by it.
        group: the tensor-parallel group.
    """
    log_probs, entropy = _Scores.apply(logits, targets, temperature, group)
    return log_probs, entropy
