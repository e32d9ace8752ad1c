"""Micro-batches through the stages of a pipeline: Megatron's schedules, and how interleaved stages exchange tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor, nn

ACTIVATIONS, GRADIENTS = 1, 2
"""Tags of messages over gloo."""

AXES = 3
"""Of what stages exchange: [width, 1, hidden]."""

ForwardStep = Callable[[Iterator[Any], nn.Module], Any]
"""From the micro-batches that are left and a part of the model to its output and the function of its loss."""


def run_schedule(
    parts: Sequence[nn.Module], batches: Sequence[Any], forward_step: ForwardStep, width: int, forward_only: bool
) -> list[Any]:
    """Every micro-batch forward, and backward unless `forward_only`; what their losses return, on the last stage.

    Args:
        parts: of the model on this rank, in the order in which a micro-batch meets them; wrapped or bare.
        width: of the first micro-batch's row; the others may differ.
    """
    interleaved = len(parts) > 1
    options: dict[str, Any] = {}
    communicator = None
    if interleaved and dist.get_backend() == "gloo":
        communicator = GlooCommunicator(parallel_state.get_pipeline_model_parallel_group(), parts[0].config)
        options = {"p2p_communicator": communicator, "pg_collection": _groups()}
    results: list[Any] = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=[iter(batches) for _ in parts] if interleaved else iter(batches),
        model=list(parts) if interleaved else parts[0],
        num_microbatches=len(batches),
        seq_length=width,
        micro_batch_size=1,
        forward_only=forward_only,
        **options,
    )
    if communicator is not None:
        communicator.finish()
    return results


def _groups() -> ProcessGroupCollection:
    groups = ProcessGroupCollection()
    groups.tp = parallel_state.get_tensor_model_parallel_group()
    groups.cp = parallel_state.get_context_parallel_group()
    groups.pp = parallel_state.get_pipeline_model_parallel_group()
    groups.embd = parallel_state.get_embedding_group(check_initialized=False)
    groups.pos_embd = parallel_state.get_position_embedding_group(check_initialized=False)
    groups.dp_cp = parallel_state.get_data_parallel_group(with_context_parallel=True, partial_data_parallel=False)
    return groups


class GlooCommunicator(P2PCommunicator):
    """Exchanges activations and gradients of interleaved stages over gloo, where Megatron's own exchange hangs.

    Megatron first exchanges shapes, and waits until its own have been taken, before it posts any tensor. A message over
    gloo is taken when the other side asks for it, and interleaved stages do not ask in step: one sends an activation
    alone while the other wants that activation and sends a gradient, and so the first waits for a tensor's receiver and
    the second for a shape's. (NCCL takes messages of that size without being asked.) Besides, messages between two
    ranks are paired by their order, and with two stages what comes from before and what comes from after have one
    sender.

    So nothing waits here for what it sends until the schedule is done, and activations and gradients have tags.
    """

    def __init__(self, group: dist.ProcessGroup, config: TransformerConfig) -> None:
        super().__init__(group, config)
        self._sent: list[tuple[Tensor, Any]] = []

    def _communicate(
        self,
        *,
        tensor_send_next: Tensor | None,
        tensor_send_prev: Tensor | None,
        recv_prev: bool,
        recv_next: bool,
        tensor_shape: Any,
        wait_on_reqs: bool = True,
    ) -> tuple[Tensor | None, Tensor | None, None]:
        """The activations from the stage before, and the gradients from the stage after, where they were asked for."""
        self._send(tensor_send_next, self.next_rank, ACTIVATIONS)
        self._send(tensor_send_prev, self.prev_rank, GRADIENTS)
        before = self._receive(self.prev_rank, ACTIVATIONS) if recv_prev else None
        after = self._receive(self.next_rank, GRADIENTS) if recv_next else None
        return before, after, None

    def _send(self, tensor: Tensor | None, rank: int, tag: int) -> None:
        if tensor is None:
            return
        for part in (torch.tensor(tensor.shape), tensor.detach().contiguous()):
            self._sent.append((part, dist.isend(part, rank, self.pp_group, tag)))

    def _receive(self, rank: int, tag: int) -> Tensor:
        shape = torch.empty(AXES, dtype=torch.int64)
        dist.recv(shape, rank, self.pp_group, tag)
        tensor = torch.empty(*shape.tolist(), dtype=self.config.pipeline_dtype)
        dist.recv(tensor, rank, self.pp_group, tag)
        return tensor.requires_grad_()

    def finish(self) -> None:
        """Wait until all that was sent has been taken."""
        while self._sent:
            self._sent.pop()[1].wait()
