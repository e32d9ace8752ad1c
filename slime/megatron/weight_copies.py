"""Several sets of weights for one model: each a copy in the memory of the host, swapped in for its forward pass.

The reference policy and a teacher have the actor's architecture and are only ever read, a pass a round. So the device
holds one model, not three.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

CURRENT = "actor"


class WeightCopies:
    """Named copies of a model's parameters and persistent buffers.

    Copying is exact, so weights that were swapped out come back to the bit. The optimizer's own float32 weights are
    not touched: it must not step while another set is in.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._copies: dict[str, dict[str, Tensor]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._copies

    def keep(self, name: str) -> None:
        """Copy the model's present weights under `name`, replacing what that name had."""
        kept = self._copies.setdefault(name, {})
        for key, tensor in self._tensors():
            if key not in kept:
                kept[key] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            kept[key].copy_(tensor)

    @contextmanager
    def swapped_in(self, name: str) -> Iterator[None]:
        """Inside, the model computes with the weights `name`; afterwards with its own again, whatever was raised.

        Raises:
            KeyError: nothing was kept under that name.
        """
        wanted = self._copies[name]
        self.keep(CURRENT)
        try:
            self._put(wanted)
            yield
        finally:
            self._put(self._copies[CURRENT])

    def _put(self, copies: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for key, tensor in self._tensors():
                tensor.copy_(copies[key])

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        for key, value in self._model.state_dict(keep_vars=True).items():
            if isinstance(value, Tensor):
                yield key, value.detach()
