"""FP8 E4M3 weights with float32 scales: of blocks, of rows, or of the whole tensor.

E4M3 (Micikevicius et al., arXiv:2209.05433, the ``fn`` variant without infinities) has 3 bits of mantissa and reaches
448. With ``scale = max|w| / 448`` of its region, a weight is stored as ``round(w / scale)``, half to even, and read as
``stored * scale``. The error is at most ``2**-4 * |w|``, or ``2**-10 * scale`` where E4M3 is subnormal.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-12
"""The largest weight of a region counts as at least this, so that a region of zeros has a scale."""


def quantise(
    weight: Tensor, rows: int, columns: int, powers: bool = False, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[Tensor, Tensor]:
    """(weight [N, K] in FP8, float32 scales [ceil(N / rows), ceil(K / columns)] of its ``rows x columns`` blocks).

    Args:
        weight: [N, K]; the last blocks may be cut off by its edges.
        powers: scales are powers of two.
        dtype: E4M3 or E5M2.
    """
    maximum = torch.finfo(dtype).max
    height, width = weight.shape
    blocks = _blocks(weight, rows, columns)
    scales = blocks.abs().amax(dim=(1, 3)).clamp_min(SMALLEST) / maximum
    if powers:
        scales = power_of_two(scales)
    scaled = blocks.div_(scales[:, None, :, None]).clamp_(-maximum, maximum).to(dtype)
    whole = scaled.view(scaled.shape[0] * rows, scaled.shape[2] * columns)
    return whole[:height, :width].contiguous(), scales


def dequantise(stored: Tensor, scales: Tensor, rows: int, columns: int) -> Tensor:
    """Float32 weight [N, K] from FP8 and the scales of its blocks."""
    height, width = stored.shape
    blocks = _blocks(stored, rows, columns).mul_(scales.float()[:, None, :, None])
    return blocks.view(blocks.shape[0] * rows, blocks.shape[2] * columns)[:height, :width]


def power_of_two(scales: Tensor) -> Tensor:
    """The next power of two, UE8M0 in float32: what the scales of DeepGEMM on Blackwell must be."""
    mantissa, exponent = torch.frexp(scales)
    return torch.ldexp(torch.ones_like(scales), exponent - (mantissa == 0.5).int())


def _blocks(weight: Tensor, rows: int, columns: int) -> Tensor:
    """A float32 copy [blocks down, rows, blocks across, columns], filled up with zeros."""
    height, width = weight.shape
    whole = weight.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    if height % rows or width % columns:
        whole = torch.nn.functional.pad(whole, (0, -width % columns, 0, -height % rows))
    return whole.view(whole.shape[0] // rows, rows, whole.shape[1] // columns, columns)
