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
