"""One trainer rank's part in handing weights over, whatever path they take. Knows nothing of Ray and of engines.

All methods but `join_group` and `send` are called on every rank of the model, or of the pipeline stage: weights are
gathered from all of them. What leaves is checked to be finite and put into the engines' format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from slime.config import Config
from slime.weights.delta import VersionNote
from slime.weights.delta_writer import DeltaWriter, Written
from slime.weights.dimensions import HFModelConfig
from slime.weights.expected import checksums
from slime.weights.quantise.formats import Int4Format
from slime.weights.served import ServedCheckpoint
from slime.weights.transport import (
    NamedTensor,
    SharedBuffer,
    check_same_tensors,
    pack,
    require_finite,
    size_in_bytes,
    split_buckets,
)
from slime.weights.transport_disk import version_folder, write_version
from slime.weights.transport_group import Bucket, SendingGroup

Stream = Callable[[], Iterator[NamedTensor]]


@dataclass(frozen=True)
class Checked:
    """One update, before anything is sent.

    Attributes:
        size: its bytes.
        repacked: engines keep its weights in a layout of their kernels, not as they were sent.
    """

    size: int
    repacked: bool


class WeightSource:
    """Hands the weights of one rank over."""

    def __init__(
        self, config: Config, rank: int, device: torch.device, model: HFModelConfig, whole: Stream, stage: Stream
    ) -> None:
        """
        Args:
            config: the resolved configuration.
            rank: of this process; rank 0 writes folders.
            device: of the weights.
            model: dimensions of the model that is trained.
            whole: gives every tensor of the model, on every rank; see `MegatronTrainer.named_hf_tensors`.
            stage: gives those of this rank's pipeline stage; see `MegatronTrainer.named_stage_tensors`.
        """
        self.config = config
        self.rank = rank
        self.served = ServedCheckpoint(Path(config.hf_checkpoint), model)
        self._whole, self._stage = whole, stage
        self._buffer = SharedBuffer(device)
        self._group = SendingGroup(device)
        self._waiting: Iterator[list[NamedTensor]] = iter(())
        self._next: list[NamedTensor] | None = None
        self._delta: DeltaWriter | None = None

    def check(self) -> Checked:
        """Compare names and shapes with what the engines loaded.

        Raises:
            WeightUpdateError: they differ, so an update would break the engines.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        size = 0
        for name, tensor in self.served.as_served(self._whole()):
            shapes[name] = tuple(tensor.shape)
            size += size_in_bytes(tensor)
        check_same_tensors(shapes, self.served.sent_shapes(), str(self.served.folder))
        return Checked(size, isinstance(self.served.format, Int4Format))

    def begin(self, stage_alone: bool = False) -> None:
        """Start over with the current weights: all, or those of this rank's pipeline stage."""
        self._waiting = self._buckets(self._stage() if stage_alone else self._whole())
        self._next = next(self._waiting, None)

    def _buckets(self, named: Iterator[NamedTensor]) -> Iterator[list[NamedTensor]]:
        for bucket in split_buckets(named, self.config.update_weight_buffer_size):
            require_finite(bucket)
            yield list(self.served.as_served(bucket))

    def _take(self) -> list[NamedTensor]:
        if self._next is None:
            raise RuntimeError("there is no bucket left; begin comes first")
        taken, self._next = self._next, next(self._waiting, None)
        return taken

    def next_handles(self, copies: int) -> tuple[list[str], bool]:
        """Put the next bucket into memory that a process of this host can map; it stays there until the next call.

        Args:
            copies: how many handles are wanted, one for each process that maps it. With 0 the bucket is only gathered.

        Returns:
            the handles, and whether this was the last bucket.

        Raises:
            WeightUpdateError: a tensor of the following bucket is not finite.
        """
        bucket = self._take()
        return pack(bucket, self._buffer, copies) if copies else [], self._next is None

    def join_group(self, name: str, address: str, port: int, world_size: int) -> None:
        """Open the group in which this rank broadcasts; see `SendingGroup.join`."""
        self._group.join(name, address, port, world_size, self.config.distributed_timeout_minutes)

    def next_bucket(self) -> Bucket:
        """Describe the bucket that `send` broadcasts next.

        Raises:
            WeightUpdateError: a tensor of the following bucket is not finite.
        """
        return self._group.hold(self._take(), self._next is None)

    def send(self) -> None:
        """Broadcast the bucket that `next_bucket` described; see `SendingGroup.send`."""
        self._group.send()

    def write_full(self, version: int, root: str) -> Written:
        """Write the current weights as a complete checkpoint below `root`, and start the chain of differences there.

        Raises:
            WeightUpdateError: a tensor is not finite.
            FolderError: something that no run wrote has the version's name.
        """
        if self.config.update_weight_mode == "delta":
            return self._by_rank_0(version, root, lambda named: self._writer(root).write_full(version, named))
        return self._by_rank_0(version, root, lambda named: self._write_plain(version, Path(root), named))

    def write_delta(self, version: int, root: str) -> Written:
        """Write what changed since the last version below `root`; everything the first time.

        Raises:
            WeightUpdateError, FolderError: see `write_full`.
            DeltaError: a tensor is too large for the encoding.
        """
        return self._by_rank_0(version, root, lambda named: self._writer(root).write(version, named))

    def _by_rank_0(self, version: int, root: str, write: Callable[[Iterator[NamedTensor]], Written]) -> Written:
        self.begin()
        named = self._stream()
        if self.rank == 0:
            return write(named)
        for _ in named:  # gathering is collective
            pass
        return Written(str(version_folder(Path(root), version)), 0, 0, 0, 0)

    def _stream(self) -> Iterator[NamedTensor]:
        while self._next is not None:
            yield from self._take()

    def _write_plain(self, version: int, root: Path, named: Iterator[NamedTensor]) -> Written:
        count = 0

        def counted() -> Iterator[NamedTensor]:
            nonlocal count
            for name, tensor in named:
                count += 1
                yield name, tensor

        folder = write_version(root, VersionNote(version, "full"), counted(), self.served)
        sent = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        return Written(str(folder), sent, sent, count, count)

    def _writer(self, root: str) -> DeltaWriter:
        if self._delta is None:
            config = self.config
            self._delta = DeltaWriter(
                Path(root),
                self.served,
                config.update_weight_delta_encoding,  # type: ignore[arg-type]  # the flag's choices
                config.update_weight_delta_checksum,  # type: ignore[arg-type]
            )
        return self._delta

    def expected_checksums(self) -> dict[str, str]:
        """Hashes that an engine on one process must report of its tensors; see `slime.weights.expected.checksums`."""
        found: dict[str, str] = checksums(self._whole(), self.served)
        return found if self.rank == 0 else {}

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method by its name; how another process reaches this object."""
        return getattr(self, method)(*arguments)
