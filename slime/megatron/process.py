"""One trainer process: its device, its process group, and Megatron's global state."""

from __future__ import annotations

import datetime
import logging
import socket
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist

from slime.megatron.parallel import ALONE, ParallelSettings

Device = Literal["cpu", "cuda"]

# Megatron logs a warning for each optional accelerator library that a CPU does not have.
_QUIET_LOGGERS = ("megatron.core",)


class TrainerProcessError(RuntimeError):
    """The process cannot take part in training; the message says why and what to do."""


@dataclass(frozen=True)
class ProcessSpec:
    """Where this process stands.

    Attributes:
        rank, world_size: of the process group.
        master_addr, master_port: where rank 0 listens.
        local_rank: index of this process's GPU among those that it sees.
        parallel: sizes of the model's parallel groups; the ranks that are left over are data-parallel.
        store_listens: the program that started the processes (torchrun) listens at that address already.
        timeout_minutes: after this a collective that misses a rank fails instead of hanging.
    """

    device: Device
    rank: int = 0
    world_size: int = 1
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    local_rank: int = 0
    seed: int = 1234
    store_listens: bool = False
    timeout_minutes: float = 10.0
    parallel: ParallelSettings = ALONE

    @property
    def torch_device(self) -> torch.device:
        """The device that holds this process's tensors."""
        return torch.device("cpu") if self.device == "cpu" else torch.device("cuda", self.local_rank)


def start(spec: ProcessSpec) -> None:
    """Join the process group and initialise Megatron. Call once a process; `stop` undoes it.

    Raises:
        TrainerProcessError: no GPU for ``--device cuda``, a second trainer in one process, or rank 0 is out of reach.
        CpuShimError: ``--device cpu`` with a release of megatron-core that was not tried.
    """
    if dist.is_initialized():
        raise TrainerProcessError("this process already belongs to a process group; one process holds one trainer.")
    if spec.device == "cuda" and not torch.cuda.is_available():
        raise TrainerProcessError("--device cuda, but this process sees no GPU; without one, use --device cpu.")
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    if spec.device == "cuda":
        torch.cuda.set_device(spec.local_rank)
    _join(spec)
    initialize_megatron(spec)


def _join(spec: ProcessSpec) -> None:
    # A lone process needs no port that another program might hold.
    store: dist.Store = dist.HashStore()
    timeout = datetime.timedelta(minutes=spec.timeout_minutes)
    if spec.world_size > 1:
        try:
            store = _meeting_point(spec, timeout)
        except (dist.DistError, OSError) as error:
            raise TrainerProcessError(
                f"rank {spec.rank} of {spec.world_size} cannot meet the others at {spec.master_addr}:"
                f"{spec.master_port}: {error}"
            ) from error
    backend = "gloo" if spec.device == "cpu" else "nccl"
    # Without `device_id`: given one, NCCL builds all of Megatron's groups at once, used or not; on an H200 they took
    # 9 GiB of its memory and 9 s more to start.
    dist.init_process_group(backend, store=store, rank=spec.rank, world_size=spec.world_size, timeout=timeout)


def _meeting_point(spec: ProcessSpec, timeout: datetime.timedelta) -> dist.TCPStore:
    """The store of all ranks. Rank 0 listens on `master_addr` alone; by itself, torch would listen on every address."""
    if spec.rank or spec.store_listens:
        return dist.TCPStore(spec.master_addr, spec.master_port, spec.world_size, is_master=False, timeout=timeout)
    listener = socket.create_server((spec.master_addr, spec.master_port))
    return dist.TCPStore(
        spec.master_addr,
        spec.master_port,
        spec.world_size,
        is_master=True,
        timeout=timeout,
        master_listen_fd=listener.detach(),  # the store closes it
    )


def initialize_megatron(spec: ProcessSpec) -> None:
    """Megatron's groups and random states, for the sizes of `spec`, in a process group that has been joined."""
    from megatron.core import parallel_state, tensor_parallel

    # Imported for the shim: it patches the modules that are loaded.
    from slime.megatron import checkpoint, model, optimizer  # noqa: F401

    if spec.device == "cpu":
        from slime.megatron import cpu_shim

        cpu_shim.apply()
    sizes = spec.parallel
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=sizes.tensor,
        pipeline_model_parallel_size=sizes.pipeline,
        virtual_pipeline_model_parallel_size=sizes.virtual,
        context_parallel_size=sizes.context,
        expert_model_parallel_size=sizes.expert,
        expert_tensor_parallel_size=sizes.expert_tensor,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(spec.seed)


def stop() -> None:
    """Leave the process group and drop Megatron's global state. Does nothing when `start` did not run."""
    if not dist.is_initialized():
        return
    from megatron.core import parallel_state

    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
