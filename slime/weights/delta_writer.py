"""The trainer's side of the delta path: remembers the last version's bytes and writes what changed since."""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from slime.weights.delta import CHECKSUMS, Bytes, Checksum, Encoding, VersionNote, encode
from slime.weights.hf_io import write_shards
from slime.weights.served import ServedCheckpoint
from slime.weights.transport import NamedTensor
from slime.weights.transport_disk import new_version, version_folder, write_version

T = TypeVar("T")
WAITING = 32
"""Tensors that wait for their difference at a time."""


@dataclass(frozen=True)
class Written:
    """One version in its folder.

    Attributes:
        folder: where it lies.
        sent: bytes of its files of weights.
        full: bytes of all tensors of the update.
        changed, tensors: how many tensors are in it, and how many there are.
    """

    folder: str
    sent: int
    full: int
    changed: int
    tensors: int


class DeltaWriter:
    """Writes one chain of versions. The first one is full; `write_full` starts the chain afresh for a host that fell
    behind.

    Memory holds a copy of all weights on the host.
    """

    def __init__(self, root: Path, served: ServedCheckpoint, encoding: Encoding, checksum: Checksum) -> None:
        """`root`: --update-weight-disk-dir; the others: see `VersionNote`."""
        self.root = root
        self.served = served
        self.encoding = encoding
        self.checksum = checksum
        self.chain = secrets.token_hex(8)
        self.version: int | None = None
        self._state: dict[str, Bytes] = {}

    def write(self, version: int, named: Iterable[NamedTensor]) -> Written:
        """Write `version` as the difference from the one before, or in full when there is none.

        Args:
            named: the tensors of an update, in the engines' format.

        Raises:
            DeltaError: a tensor is too large for the encoding.
            FolderError: something that no run wrote has the version's name.
        """
        if self.version is None:
            return self.write_full(version, named)
        base, self.version = self.version, None  # what fails half-way leaves no state that a difference may start from
        changed: list[tuple[str, Bytes]] = []
        checksums: dict[str, str] = {}
        with ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0)))) as pool:
            for name, found in _in_order(pool, self._encode, named):
                if found is not None:
                    changed.append((name, found[0]))
                    checksums[name] = found[1]
        note = VersionNote(version, self.chain, base, self.encoding, self.checksum, checksums)
        with new_version(self.root, note) as partial:
            if changed:
                write_shards(partial, ((name, torch.from_numpy(found)) for name, found in changed))
            sent = sum(path.stat().st_size for path in partial.glob("*.safetensors"))
        self.version = version
        return self._written(version, sent, len(changed))

    def write_full(self, version: int, named: Iterable[NamedTensor]) -> Written:
        """Write `version` complete in itself; the following differences start from it.

        Raises:
            FolderError: something that no run wrote has the version's name.
        """

        def remembered() -> Iterable[NamedTensor]:
            for name, tensor in named:
                host = tensor.detach().cpu().contiguous()
                self._state[name] = _bytes(host)
                yield name, host

        folder = write_version(self.root, VersionNote(version, self.chain), remembered(), self.served)
        self.version = version
        sent = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        return self._written(version, sent, len(self._state))

    def _encode(self, name: str, new: Bytes) -> tuple[Bytes, str] | None:
        """A tensor's difference and the checksum of its new bytes, which are remembered; None when nothing changed."""
        found = encode(self._state[name], new, self.encoding)
        if found is None:
            return None
        self._state[name] = new
        return found, CHECKSUMS[self.checksum](new)

    def _written(self, version: int, sent: int, changed: int) -> Written:
        full = sum(state.size for state in self._state.values())
        return Written(str(version_folder(self.root, version)), sent, full, changed, len(self._state))


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[str, Bytes], T], named: Iterable[NamedTensor]
) -> Iterator[tuple[str, T]]:
    """The results by name, in order; a bounded number of tensors waits, so that memory stays bounded too."""
    waiting: deque[tuple[str, Future[T]]] = deque()
    for name, tensor in named:
        waiting.append((name, pool.submit(work, name, _bytes(tensor))))
        if len(waiting) > WAITING:
            first, job = waiting.popleft()
            yield first, job.result()
    for name, job in waiting:
        yield name, job.result()


def _bytes(tensor: torch.Tensor) -> Bytes:
    """A copy of the tensor's bytes on the host: training goes on in the tensor's own memory."""
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return np.array(flat.numpy()) if flat.device.type == "cpu" else flat.cpu().numpy()
