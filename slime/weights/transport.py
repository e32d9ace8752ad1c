"""Weights on their way from a trainer to an engine on the same host: one shared buffer, of which only a handle is sent.

The trainer copies its tensors one after another into a flat byte buffer and sends the engine a handle. The engine maps
the buffer, cuts it back into tensors and loads them. This is SGLang's load format `flattened_bucket`. The buffer lies
in shared memory for a trainer on a CPU, and in the memory of the trainer's GPU (CUDA IPC) for one on a GPU.
Buckets and the checks before they leave are those of every path.

The handle is a pickle, as SGLang expects it. Here it is only ever written: nothing in this package unpickles.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any

import torch
import torch.multiprocessing
from torch.multiprocessing.reductions import reduce_tensor

LOAD_FORMAT = "flattened_bucket"
DEFAULT_BUCKET_BYTES = 512 * 2**20

CPU = torch.device("cpu")
# Where `torch.multiprocessing` names the device among the arguments that rebuild a CUDA tensor.
_DEVICE_ARGUMENT = 6
# Quantised weights are made of checked ones.
_CHECKED = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

NamedTensor = tuple[str, torch.Tensor]


class WeightUpdateError(RuntimeError):
    """Weights could not be handed over, or an engine did not take them."""


def size_in_bytes(tensor: torch.Tensor) -> int:
    """Bytes that the tensor's values take."""
    return tensor.numel() * tensor.element_size()


def split_buckets(named: Iterable[NamedTensor], limit: int = DEFAULT_BUCKET_BYTES) -> Iterator[list[NamedTensor]]:
    """Group tensors, in order, into buckets of at most `limit` bytes; a larger tensor gets a bucket of its own."""
    bucket: list[NamedTensor] = []
    filled = 0
    for name, tensor in named:
        size = size_in_bytes(tensor)
        if bucket and filled + size > limit:
            yield bucket
            bucket, filled = [], 0
        bucket.append((name, tensor))
        filled += size
    if bucket:
        yield bucket


@dataclass
class SharedBuffer:
    """A flat byte buffer that an engine can map.

    Attributes:
        device: of the trainer's weights. On a CPU the buffer is shared memory, reused from one bucket to the next and
            grown when it is too small. On a GPU every bucket gets memory of its own: an engine answers before its
            copies have run, and torch keeps a block that was handed out until the engine has closed it.
        data: the buffer, from the first `reserve` on.
    """

    device: torch.device = CPU
    data: torch.Tensor | None = None

    def reserve(self, size: int) -> torch.Tensor:
        """`size` bytes to write into, as a uint8 tensor of shape (size,). On a CPU, bytes given out before are void."""
        if self.device.type == "cuda":
            self.data = None
            torch.cuda.ipc_collect()  # frees the blocks that the engines have closed
            self.data = torch.empty(size, dtype=torch.uint8, device=self.device)
        elif self.data is None or self.data.numel() < size:
            self.data = torch.empty(size, dtype=torch.uint8).share_memory_()
        return self.data[:size]


def require_finite(bucket: Sequence[NamedTensor]) -> None:
    """Keep weights back that would ruin an engine. One look at all tensors, so that a GPU is waited for once.

    Raises:
        WeightUpdateError: a tensor holds NaN or infinity; the message names it.
    """
    floats = [(name, tensor) for name, tensor in bucket if tensor.dtype in _CHECKED]
    if not floats:
        return
    largest = torch.stack([torch.linalg.vector_norm(tensor.detach(), torch.inf).float() for _, tensor in floats])
    for (name, _), finite in zip(floats, torch.isfinite(largest).tolist(), strict=True):
        if not finite:
            raise WeightUpdateError(
                f"{name} holds values that are not finite; they were not sent, and the engine keeps its weights"
            )


def lay_out(bucket: Sequence[NamedTensor]) -> list[NamedTensor]:
    """The bucket's tensors, those with wide elements first: one after another, each then starts at its own alignment.

    Engines view the bytes at a tensor's place in its dtype, which a place that is not a multiple of the element's
    size does not allow.
    """
    return sorted(bucket, key=lambda named: -named[1].element_size())


def copy_flat(bucket: Sequence[NamedTensor], flat: torch.Tensor) -> None:
    """Copy the tensors one after another into `flat`, uint8 of exactly their bytes."""
    start = 0
    for _, tensor in bucket:
        size = size_in_bytes(tensor)
        flat[start : start + size].copy_(tensor.detach().to(flat.device).contiguous().reshape(-1).view(torch.uint8))
        start += size


def pack(bucket: list[NamedTensor], buffer: SharedBuffer, copies: int = 1) -> list[str]:
    """Copy a bucket into the buffer and describe it for engines.

    The buffer must stay as it is until the engines have answered.

    Args:
        bucket: the tensors; those with wide elements come first in the buffer.
        copies: how many handles are wanted: each process that maps the buffer takes one of its own.

    Returns:
        payloads of `update_weights_from_tensor`: base64 of a pickle that holds a handle of the buffer and, for each
        tensor, its name, shape, dtype and place.

    Raises:
        WeightUpdateError: the bucket is empty.
    """
    if not bucket:
        raise WeightUpdateError("there are no tensors to send")
    ordered = lay_out(bucket)
    flat = buffer.reserve(sum(size_in_bytes(tensor) for _, tensor in ordered))
    copy_flat(ordered, flat)
    places: list[SimpleNamespace] = []
    start = 0
    for name, tensor in ordered:
        size = size_in_bytes(tensor)
        # SGLang reads these attributes by name and takes any plain record, so its own class need not be imported here.
        places.append(
            SimpleNamespace(
                name=name, shape=tensor.shape, dtype=tensor.dtype, start_idx=start, end_idx=start + size, numel=size
            )
        )
        start += size
    return [_handle({"flattened_tensor": flat, "metadata": places}) for _ in range(copies)]


class _HandlePickler(ForkingPickler):
    """torch.multiprocessing's reducers, which put a handle of a tensor's memory for its bytes."""

    def reducer_override(self, value: object) -> Any:
        """A CUDA tensor names its GPU by UUID, as SGLang reads it: the engine may number its GPUs differently."""
        if not (isinstance(value, torch.Tensor) and value.is_cuda):
            return NotImplemented
        rebuild, arguments = reduce_tensor(value)
        uuid = str(torch.cuda.get_device_properties(value.device).uuid)
        return rebuild, (*arguments[:_DEVICE_ARGUMENT], uuid, *arguments[_DEVICE_ARGUMENT + 1 :])


def _handle(content: object) -> str:
    """Pickle what the engine needs to map the buffer; none of its bytes."""
    # Torch's default strategy passes a file descriptor over an authenticated socket of the sender's process family;
    # a server that is not a child of the trainer cannot take it and dies of the attempt.
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        written = io.BytesIO()
        _HandlePickler(written).dump(content)
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    return base64.b64encode(written.getvalue()).decode("ascii")


def check_same_tensors(
    sent: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], source: str
) -> None:
    """Refuse an update whose names or shapes differ from what the engine loaded.

    A tensor of a wrong shape ends SGLang's whole server, and a missing one stays at its old value silently; both are
    refused here, before anything is sent.

    Args:
        sent: shape by name of what the trainer is about to send.
        expected: shape by name, read from the checkpoint that the engine started with.
        source: where `expected` comes from, for the message.

    Raises:
        WeightUpdateError: with the first differing names and both shapes.
    """
    problems = [f"{name} is missing" for name in expected if name not in sent]
    problems += [f"{name} is not a tensor of the engine's checkpoint" for name in sent if name not in expected]
    problems += [
        f"{name} has shape {list(sent[name])} instead of {list(shape)}"
        for name, shape in expected.items()
        if name in sent and sent[name] != shape
    ]
    if problems:
        more = f", and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise WeightUpdateError(
            f"the trainer's weights do not fit the engine's model ({source}): {'; '.join(problems[:5])}{more}"
        )
