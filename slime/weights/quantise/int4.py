"""INT4 weights in groups of one row, eight to an int32: the format ``pack-quantized`` of compressed-tensors.

A group is `size` consecutive input channels of one output row. Numbers are stored from 0 to 15, the first of eight in
the lowest four bits. Symmetric: ``w = scale * (stored - 8)`` with ``scale = max|w| / 7``. Asymmetric:
``w = scale * (stored - zero)`` with ``scale = (max(w, 0) - min(w, 0)) / 15``; zero always lies in the range, or a group
of one sign could not be stored. Either error is at most half a scale. Scales have the dtype of the weights and are
rounded up in it, so that the largest weight stays within the range.
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 4
PER_WORD = 32 // BITS
LEVELS = 15
MIDDLE = 8
SMALLEST_SCALE = 1e-5


def quantise(weight: Tensor, size: int, symmetric: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """(numbers 0 to 15 int32 [N, K], scales [N, K / size] in the dtype of `weight`, zero points int32 like the scales).

    Args:
        weight: [N, K], K a multiple of `size`.
    """
    groups = weight.float().view(weight.shape[0], -1, size)
    if symmetric:
        scales = _rounded_up(groups.abs().amax(dim=2) / 7, weight.dtype)
        numbers = torch.round(groups / scales.float()[:, :, None]) + MIDDLE
        return numbers.clamp_(1, LEVELS).int().view(weight.shape), scales, None
    low, high = groups.amin(dim=2).clamp_max(0), groups.amax(dim=2).clamp_min(0)
    scales = _rounded_up((high - low) / LEVELS, weight.dtype)
    zeros = torch.round(-low / scales.float()).clamp_(0, LEVELS)
    numbers = torch.round(groups / scales.float()[:, :, None]) + zeros[:, :, None]
    return numbers.clamp_(0, LEVELS).int().view(weight.shape), scales, zeros.int()


def dequantise(numbers: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    """Float32 weight [N, K] from its numbers [N, K], scales and zero points [N, groups]."""
    groups = numbers.view(*scales.shape, -1)
    middle = MIDDLE if zeros is None else zeros[:, :, None]
    return ((groups - middle).float() * scales.float()[:, :, None]).view(numbers.shape)


def pack(numbers: Tensor) -> Tensor:
    """Eight numbers along the last axis to one int32; the last word is filled with 0."""
    padded = torch.nn.functional.pad(numbers.int(), (0, -numbers.shape[-1] % PER_WORD))
    words = padded.view(*padded.shape[:-1], -1, PER_WORD)
    result = torch.zeros_like(words[..., 0])
    for place in range(PER_WORD):
        result |= words[..., place] << (BITS * place)
    return result


def unpack(words: Tensor, count: int) -> Tensor:
    """The first `count` numbers along the last axis; inverse of `pack`."""
    shifts = torch.arange(0, 32, BITS, dtype=torch.int32, device=words.device)
    numbers = (words[..., None] >> shifts) & LEVELS
    return numbers.flatten(-2)[..., :count]


def _rounded_up(scales: Tensor, dtype: torch.dtype) -> Tensor:
    exact = scales.clamp_min(SMALLEST_SCALE)
    nearest = exact.to(dtype)
    above = (exact * (1 + torch.finfo(dtype).eps)).to(dtype)
    return torch.where(nearest.float() < exact, above, nearest)
