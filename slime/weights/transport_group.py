"""Weights on their way from a trainer to engines anywhere: broadcast in a process group of their own.

The group is NCCL between GPUs and gloo between CPUs. Rank 0 is the trainer's; each process of each engine has one of
the others. A bucket travels as one flat byte tensor, which the engine cuts apart by the names, dtypes and shapes that
its request `update_weights_from_distributed` lists (load format `flattened_bucket`).

An engine joins with torch's helper for groups beside the default one, which has no public counterpart; both sides must
call the same function, because it decides under which keys the members meet.
"""

from __future__ import annotations

import datetime
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _new_process_group_helper, _world

from slime.weights.transport import NamedTensor, WeightUpdateError, copy_flat, lay_out, size_in_bytes

Backend = Literal["nccl", "gloo"]
SOURCE = 0
"""The trainer's rank in every group."""


@dataclass(frozen=True)
class Bucket:
    """What an engine must know of the tensors that are broadcast next, one entry a tensor, in their order.

    Attributes:
        dtypes: as torch names them, without ``torch.``.
        size: bytes of all.
        last: no further bucket of this sender follows.
    """

    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]
    size: int
    last: bool


class SendingGroup:
    """The trainer's side of one group: one rank of each pipeline stage has one."""

    def __init__(self, device: torch.device) -> None:
        """`device`: where the tensors to send are."""
        self.device = device
        self.backend: Backend = "gloo" if device.type == "cpu" else "nccl"
        self._group: dist.ProcessGroup | None = None
        self._tensors: list[NamedTensor] = []

    def join(self, name: str, address: str, port: int, world_size: int, minutes: float) -> None:
        """Open the group; returns when all engines have joined.

        Args:
            name: of the group, unique in each engine.
            address, port: where this rank listens, on that address alone.
            world_size: this rank and all processes of all engines.
            minutes: limit on the wait, and on each broadcast.

        Raises:
            WeightUpdateError: an engine did not join in time, or the port was taken meanwhile.
        """
        self.leave()
        limit = datetime.timedelta(minutes=minutes)
        try:
            listener = socket.create_server((address, port))
            store = dist.TCPStore(
                address,
                port,
                world_size,
                is_master=True,
                timeout=limit,
                master_listen_fd=listener.detach(),  # the store closes it
            )
            self._group, _ = _new_process_group_helper(
                world_size,
                SOURCE,
                [],
                dist.Backend(self.backend),
                dist.PrefixStore(name, store),
                group_name=name,
                timeout=limit,
            )
            _world.pg_group_ranks[self._group] = {rank: rank for rank in range(world_size)}
        except (dist.DistError, OSError, RuntimeError) as error:
            raise WeightUpdateError(
                f"the group {name} of {world_size} processes could not be formed at {address}:{port} over "
                f"{self.backend}: {error}"
            ) from error

    def leave(self) -> None:
        """Leave the group, if there is one; its engines may be gone."""
        if self._group is not None:
            group, self._group = self._group, None
            dist.destroy_process_group(group)

    def hold(self, bucket: Sequence[NamedTensor], last: bool) -> Bucket:
        """Keep a bucket for the next `send`, and describe it."""
        self._tensors = lay_out(bucket)
        return Bucket(
            names=[name for name, _ in self._tensors],
            dtypes=[str(tensor.dtype).removeprefix("torch.") for _, tensor in self._tensors],
            shapes=[list(tensor.shape) for _, tensor in self._tensors],
            size=sum(size_in_bytes(tensor) for _, tensor in self._tensors),
            last=last,
        )

    def send(self) -> None:
        """Broadcast the bucket that is held; returns when it has left this process.

        Raises:
            WeightUpdateError: a member left the group, or did not take part in time.
        """
        if self._group is None or not self._tensors:
            raise RuntimeError("join and hold come first")
        size = sum(size_in_bytes(tensor) for _, tensor in self._tensors)
        flat = torch.empty(size, dtype=torch.uint8, device=self.device)
        copy_flat(self._tensors, flat)
        self._tensors = []
        options = dist.BroadcastOptions()
        options.rootRank = SOURCE
        try:
            self._group.broadcast([flat], options).wait()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
        except RuntimeError as error:
            raise WeightUpdateError(f"the broadcast of {size} bytes over {self.backend} failed: {error}") from error
