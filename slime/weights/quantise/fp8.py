"""FP8 E4M3 weights with float32 scales: of blocks, of rows, or of the whole tensor.

E4M3 (Micikevicius et al., arXiv:2209.05433, the ``fn`` variant without infinities) has 3 bits of mantissa and reaches
448. With ``scale = max|w| / 448`` of its region, a weight is stored as ``round(w / scale)``, half to even, and read as
``stored * scale``. The error is at most ``2**-4 * |w|``, or ``2**-10 * scale`` where E4M3 is subnormal.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAXIMUM = 448.0
SMALLEST = 1e-12
"""The largest weight of a region counts as at least this, so that a region of zeros has a scale."""


def region_scales(weight: Tensor, rows: int, columns: int) -> Tensor:
    """The scale of every ``rows x columns`` block, float32 [ceil(N / rows), ceil(K / columns)].

    Args:
        weight: [N, K]; the last blocks may be cut off by its edges.
    """
    height, width = weight.shape
    padded = torch.nn.functional.pad(weight.float(), (0, -width % columns, 0, -height % rows))
    blocks = padded.view(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    return blocks.abs().amax(dim=(1, 3)).clamp_min(SMALLEST) / MAXIMUM


def power_of_two(scales: Tensor) -> Tensor:
    """The next power of two, UE8M0 in float32: what the scales of DeepGEMM on Blackwell must be."""
    mantissa, exponent = torch.frexp(scales)
    return torch.ldexp(torch.ones_like(scales), exponent - (mantissa == 0.5).int())


def spread(scales: Tensor, shape: torch.Size, rows: int, columns: int) -> Tensor:
    """`scales` of blocks as one value for every element of a weight of `shape`."""
    return scales.repeat_interleave(rows, 0)[: shape[0]].repeat_interleave(columns, 1)[:, : shape[1]]


def quantise(weight: Tensor, scales: Tensor, rows: int, columns: int) -> Tensor:
    """`weight` [N, K] in E4M3, given the scales of its blocks."""
    scaled = weight.float() / spread(scales, weight.shape, rows, columns)
    return scaled.clamp_(-MAXIMUM, MAXIMUM).to(torch.float8_e4m3fn)


def dequantise(stored: Tensor, scales: Tensor, rows: int, columns: int) -> Tensor:
    """Float32 weight from E4M3 and the scales of its blocks."""
    return stored.float() * spread(scales.float(), stored.shape, rows, columns)
