"""Stand-in for `sgl_kernel`, SGLang's compiled kernels, which exist for GPUs only.

SGLang imports CPU operators by name at start-up and calls them only on a CPU with AMX. Those names exist here and raise
when they are called. Every other name is absent, so that SGLang's own `try: import` fall-backs keep working.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

# SGLang compares this with the oldest kernel version that it accepts.
__version__ = "0.4.10"


def __getattr__(name: str) -> Any:
    if not name.endswith("_cpu"):
        raise AttributeError(f"the stand-in for sgl_kernel has no {name}")

    def absent(*args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(f"sgl_kernel.{name} is a compiled operator that this CPU environment does not have")

    absent.__name__ = name
    return absent


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    *_: object,
) -> None:
    """Write each request's new cache slots into its row of the request-to-token table.

    The one operator that SGLang calls on every CPU. `req_pool_indices`, `start_offset` and `end_offset` are of shape
    (requests,); `out_cache_loc` holds the slots of all requests one after another.
    """
    taken = 0
    rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for row, start, end in rows:
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[taken : taken + count].to(req_to_token.dtype)
        taken += count


def murmur_hash32(seed: torch.Tensor, positions: torch.Tensor, col_indices: torch.Tensor) -> torch.Tensor:
    """MurmurHash3 (x86, 32 bits) of seed, position and column: the noise of SGLang's sampling with a seed per request.

    Args:
        seed: (rows,), 64 bits each, two blocks of the hash.
        positions: (rows,).
        col_indices: (columns,).

    Returns:
        int64 (rows, columns), values in [0, 2**32).
    """
    seed = seed.view(torch.int64)
    state = torch.zeros_like(seed)
    for block in (seed & WORD, (seed >> 32) & WORD, positions.to(torch.int64) & WORD):
        state = _mix(state, block)
    state = _mix(state[:, None], col_indices.to(torch.int64)[None, :] & WORD)
    state = state ^ 16  # bytes that were hashed
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = ((state ^ (state >> shift)) * factor) & WORD
    return state ^ (state >> 16)


WORD = 0xFFFFFFFF


def _mix(state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    # Products overflow 64 bits; their low 32 bits are right all the same.
    block = (_rotated((block * 0xCC9E2D51) & WORD, 15) * 0x1B873593) & WORD
    return (_rotated(state ^ block, 13) * 5 + 0xE6546B64) & WORD


def _rotated(value: torch.Tensor, bits: int) -> torch.Tensor:
    return ((value << bits) | (value >> (32 - bits))) & WORD


_OPERATORS = torch.library.Library("sgl_kernel", "FRAGMENT")
_OPERATORS.define("murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor col_indices) -> Tensor")
_OPERATORS.impl("murmur_hash32_cpu", murmur_hash32, "CPU")
