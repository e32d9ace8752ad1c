"""Adam in host memory: float32 weights and moments live there, and the CPU updates them (--optimizer-cpu-offload).

A GPU then holds 6 bytes of each parameter, bfloat16 weight and float32 gradient, instead of 18. In a step the gradients
are measured and clipped where they are, travel to pinned memory, and the new weights travel back in bfloat16.

Megatron-Core 0.16.1 has an offload of its own. It fails where no weight has an original on a GPU, and without
Transformer Engine it moves the moments that stay on a GPU when it loads a checkpoint. Here Megatron's optimizers stay
as they are, and with them the form of checkpoints: a run resumes with and without offload.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from megatron.core.optimizer import MegatronOptimizer
from megatron.core.optimizer.clip_grads import get_grad_norm_fp32
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.optimizer.optimizer import ChainedOptimizer, Float16OptimizerWithFloat16Params
from megatron.core.tensor_parallel import param_is_not_tensor_parallel_duplicate
from megatron.core.transformer.module import param_is_not_shared
from torch import Tensor
from torch.optim.adam import adam


@dataclass(frozen=True)
class _Share:
    """One tensor that this rank updates.

    Attributes:
        main: float32, what Adam updates.
        gradient: float32, where the backward pass left it.
        weight: what the model computes with; None = `main` itself.
        group: Adam's settings for it.
        states: Adam's moments, by `main`; it gets its own with its first update.
    """

    main: Tensor
    gradient: Tensor
    weight: Tensor | None
    group: dict[str, Any]
    states: dict[Tensor, dict[str, Tensor]]


class HostOptimizer(ChainedOptimizer):
    """Megatron's optimizers with their state in host memory. On a CPU it is there already, and nothing is copied.

    Weights that the model itself has in float32 stay where they are, with their moments.
    """

    def __init__(self, parts: Sequence[MegatronOptimizer], fraction: float, overlap: bool) -> None:
        """
        Args:
            parts: dense and experts' optimizers, without loss scale; their main weights are moved.
            fraction: of the parameters whose state goes to the host; the rest is updated on its device.
            overlap: gradients and weights travel while the CPU updates others (--overlap-cpu-optimizer-d2h-h2d).
        """
        super().__init__(list(parts))
        self._overlap = overlap
        self._buffers: dict[Tensor, Tensor] = {}
        self._move([share.main for share in self._shares() if share.weight is not None], fraction)

    def _move(self, copies: Sequence[Tensor], fraction: float) -> None:
        left = fraction * sum(main.numel() for main in copies)
        for main in copies:
            if left > 0 and main.is_cuda:
                main.data = main.data.cpu().pin_memory()
                self._buffers[main] = torch.empty_like(main, pin_memory=True)
            left -= main.numel()

    def _shares(self) -> list[_Share]:
        return [share for part in self.chained_optimizers for share in _shares_of(part)]

    def prepare_grads(self) -> bool:
        """Nothing: gradients are read where they are, and no loss scale could have made them overflow."""
        return False

    @torch.no_grad()
    def get_grad_norm(self) -> float:
        """Norm of all gradients before clipping; each counts on one rank alone, as in Megatron's."""
        counted = [
            [share.gradient for share in _shares_of(part) if _counts(share.main, part)]
            for part in self.chained_optimizers
        ]
        groups = [part.get_grad_stats_parallel_group() for part in self.chained_optimizers]
        if self.grads_states_parallel_group_is_shared():
            counted, groups = [list(chain(*counted))], groups[:1]
        norms = [
            float(get_grad_norm_fp32(gradients, grad_stats_parallel_group=group))
            for gradients, group in zip(counted, groups, strict=True)
        ]
        return norms[0] if len(norms) == 1 else math.sqrt(sum(norm**2 for norm in norms))

    @torch.no_grad()
    def step(self) -> tuple[bool, float, None]:
        """Clip, update, and give every rank the new weights; returns success, norm before clipping, no zero count."""
        norm, shares = self.get_grad_norm(), self._shares()
        coefficient = self.config.clip_grad / (norm + 1.0e-6)
        if 0 < coefficient < 1.0:
            for share in shares:
                share.gradient.mul_(coefficient)
        self._update(shares)
        for part in self.chained_optimizers:
            if isinstance(part, DistributedOptimizer):
                for chunk in part.model_chunks:
                    chunk.start_param_sync()
        return True, norm, None

    def _update(self, shares: Sequence[_Share]) -> None:
        """Gradients down, Adam, weights up. With overlap each of the three works on another tensor at the same time."""
        down, up = _queue(self._overlap and bool(self._buffers)), _queue(self._overlap and bool(self._buffers))
        arrived = self._send_down(shares, down)
        if arrived and not self._overlap:
            arrived[-1].synchronize()
        events = iter(arrived)
        for share in shares:
            buffer = self._buffers.get(share.main)
            if buffer is not None:
                next(events).synchronize()
            # What never left a GPU's host is updated as torch does it there, so that a CPU's results are the same bits.
            _adam(share, share.gradient if buffer is None else buffer, fused=buffer is not None)
            if self._overlap:
                self._send_up(share, up)
        if not self._overlap:
            for share in shares:
                self._send_up(share, up)
        if up is not None:
            torch.cuda.current_stream().wait_stream(up)

    def _send_down(self, shares: Sequence[_Share], queue: torch.cuda.Stream | None) -> list[torch.cuda.Event]:
        """Begin to copy gradients into their pinned buffers; an event for each says when it is there."""
        arrived = []
        with _on(queue):
            for share in shares:
                buffer = self._buffers.get(share.main)
                if buffer is not None:
                    buffer.copy_(share.gradient.view_as(buffer), non_blocking=True)
                    arrived.append(torch.cuda.current_stream().record_event())
        return arrived

    def _send_up(self, share: _Share, queue: torch.cuda.Stream | None) -> None:
        """Begin to copy a main weight into the model, in the model's precision."""
        if share.weight is None:
            return
        buffer = self._buffers.get(share.main)
        if buffer is None:
            share.weight.copy_(share.main.view_as(share.weight))
            return
        # Its gradient is used up. Converted here, half of the bytes travel, and from pinned memory nobody waits.
        ready = buffer.view(-1).view(share.weight.dtype)[: share.weight.numel()].view_as(share.weight)
        ready.copy_(share.main.view_as(share.weight))
        with _on(queue):
            share.weight.copy_(ready, non_blocking=True)


def _queue(wanted: bool) -> torch.cuda.Stream | None:
    """A queue of its own for copies, behind what the present one has to do; None = the present one."""
    if not wanted:
        return None
    queue = torch.cuda.Stream()
    queue.wait_stream(torch.cuda.current_stream())
    return queue


def _on(queue: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    return nullcontext() if queue is None else torch.cuda.stream(queue)


def _shares_of(part: MegatronOptimizer) -> Iterator[_Share]:
    """What one of Megatron's optimizers updates, in its order."""
    if part.is_stub_optimizer:  # a rank without trained weights of this kind
        return
    places = {main: (gradient, weight) for main, gradient, weight in _places(part)}
    for group in part.optimizer.param_groups:
        for main in group["params"]:
            yield _Share(main, *places[main], group, part.optimizer.state)


def _places(part: MegatronOptimizer) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """For each tensor that Adam updates: it, its gradient, and the model's weight where that is another tensor."""
    if isinstance(part, DistributedOptimizer):
        for models, mains, copied in (
            (part.model_float16_groups, part.shard_fp32_from_float16_groups, True),
            (part.model_fp32_groups, part.shard_fp32_groups, False),
        ):
            for model, main in zip(chain(*models), chain(*mains), strict=True):
                own = part._get_model_param_range_map(model)["param"]
                weight = model.data.view(-1)[own.start : own.end] if copied else None
                yield main, model.main_grad.view(-1)[own.start : own.end], weight
    elif isinstance(part, Float16OptimizerWithFloat16Params):
        for model, main in zip(chain(*part.float16_groups), chain(*part.fp32_from_float16_groups), strict=True):
            yield main, model.main_grad, model.data
        for model in chain(*part.fp32_from_fp32_groups):
            yield model, model.main_grad, None
    else:
        for model in part.get_parameters():
            yield model, model.main_grad, None


def _adam(share: _Share, gradient: Tensor, fused: bool) -> None:
    """One update of AdamW (arXiv:1711.05101); `fused` goes over memory once, and rounds in another order."""
    group, main = share.group, share.main
    state = share.states.setdefault(main, {})
    if not state:
        state |= {name: torch.zeros_like(main, requires_grad=False) for name in ("exp_avg", "exp_avg_sq")}
        state["step"] = torch.zeros(())
    adam(
        [main],
        [gradient.view_as(main)],
        [state["exp_avg"]],
        [state["exp_avg_sq"]],
        [],
        [state["step"]],
        foreach=False,
        fused=fused,
        decoupled_weight_decay=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
    )


def _counts(main: Tensor, part: MegatronOptimizer) -> bool:
    """Whether this rank's gradient belongs to the norm: no other rank has the same."""
    return bool(param_is_not_shared(main) and param_is_not_tensor_parallel_duplicate(main, part.tp_group))
