"""The ways that weights take from the trainer's ranks to engines. Each one loads one version into all its engines.

memory: trainer and engine share their devices. A bucket lies in the trainer's memory, and the engine maps it.
group: they do not. Buckets are broadcast over NCCL or gloo, one pipeline stage after another.
disk: --update-weight-transport disk. A complete checkpoint lies in a folder that both see.
delta: --update-weight-mode delta. What changed lies there, and is applied to each host's own checkpoint.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slime.config import Config
from slime.sglang.control import EngineControl
from slime.sglang.http import RequestError
from slime.weights.delta import DeltaError
from slime.weights.transport import LOAD_FORMAT, WeightUpdateError
from slime.weights.transport_disk import remove_version

CLOSE_SECONDS = 10.0
Call = Callable[..., Awaitable[Any]]
"""Calls a method, given by its name and arguments, of an object in another process."""


@dataclass(frozen=True)
class EngineLink:
    """An engine as an update sees it.

    Attributes:
        control: its server.
        slots: bundle of each of its processes, in rank order, as the trainer's ranks are counted.
        host: calls a method of `slime.cluster.engine_actor.EngineActor` on the engine's host; None for an engine that
            runs elsewhere.
    """

    control: EngineControl
    slots: tuple[int, ...]
    host: Call | None = None


@dataclass
class Load:
    """One update under way.

    Attributes:
        version: that it brings.
        touched: engines that were sent a part of it; until the update has ended well, they hold a mixture.
        metrics: what is reported of it, by name.
    """

    version: int
    touched: set[str] = field(default_factory=set)
    metrics: dict[str, float] = field(default_factory=dict)


class WeightPath(ABC):
    """One way, for some of the engines; `name` is how messages call it."""

    name = ""

    def __init__(self, config: Config, ranks: Sequence[Call], engines: Sequence[EngineLink]) -> None:
        """
        Args:
            config: the resolved configuration.
            ranks: `slime.weights.source.WeightSource.call` of every trainer rank, in order.
            engines: that are served this way.
        """
        self.config = config
        self.ranks = ranks
        self.engines = engines

    async def prepare(self, load: Load) -> None:
        """What can be done while engines still generate."""
        return

    @abstractmethod
    async def load(self, load: Load) -> None:
        """Load the version into the paused engines; may be called again for the same version.

        Raises:
            WeightUpdateError, RequestError: an engine did not take it.
        """

    async def finish(self, load: Load) -> None:
        """Clear away what the update needed, whether it went well or not."""
        return

    async def close(self) -> None:
        """The run ends."""
        return

    async def on_ranks(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on every rank; the answers in order."""
        return list(await asyncio.gather(*(rank(method, *arguments) for rank in self.ranks)))

    async def on_engines(self, work: Callable[[EngineLink], Awaitable[Any]]) -> list[Any]:
        """Do something with every engine at once. All have ended when the first error is raised: none goes on
        unobserved in an engine while the update is given up.
        """
        answers = await asyncio.gather(*(work(engine) for engine in self.engines), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def begin(self, load: Load) -> None:
        """Open the update in every engine."""
        load.touched |= {engine.control.url for engine in self.engines}
        await self.on_engines(lambda engine: engine.control.begin_update())

    async def end(self) -> None:
        """Close it."""
        await self.on_engines(lambda engine: engine.control.end_update())


class MemoryPath(WeightPath):
    """Shared memory on a CPU; CUDA IPC on GPUs, where each engine process maps the buffer of the rank on its GPU."""

    def __init__(self, config: Config, ranks: Sequence[Call], engines: Sequence[EngineLink]) -> None:
        """See `WeightPath`."""
        super().__init__(config, ranks, engines)
        self.name = "shared memory" if config.device == "cpu" else "CUDA IPC"

    def _wanted(self) -> list[int]:
        """How many handles each rank makes."""
        if self.config.device == "cpu":  # every process of the host can map every buffer
            return [sum(len(engine.slots) for engine in self.engines), *[0] * (len(self.ranks) - 1)]
        slots = [slot for engine in self.engines for slot in engine.slots]
        return [slots.count(rank) for rank in range(len(self.ranks))]

    async def load(self, load: Load) -> None:
        """See `WeightPath.load`."""
        await self.begin(load)
        try:
            await self._send(load)
        except (RequestError, WeightUpdateError):
            with suppress(RequestError):  # the first error says more
                await self.end()
            raise
        await self.end()

    async def _send(self, load: Load) -> None:
        await self.on_ranks("begin")
        wanted, last = self._wanted(), False
        while not last:
            answers = await asyncio.gather(
                *(rank("next_handles", copies) for rank, copies in zip(self.ranks, wanted, strict=True))
            )
            last = answers[0][1]
            handles = [list(found) for found, _ in answers]
            on_cpu = self.config.device == "cpu"
            given = {
                engine.control.url: [handles[0 if on_cpu else slot].pop() for slot in engine.slots]
                for engine in self.engines
            }
            label = str(load.version) if last else None

            async def hand_over(
                engine: EngineLink, given: dict[str, list[str]] = given, label: str | None = label
            ) -> None:
                await engine.control.load_bucket(given[engine.control.url], LOAD_FORMAT, label)

            await self.on_engines(hand_over)


class GroupPath(WeightPath):
    """A process group of each pipeline stage's first rank and all engine processes. Stages send in turn: engines that
    took their broadcasts in different orders would wait for each other for ever.
    """

    def __init__(self, config: Config, ranks: Sequence[Call], engines: Sequence[EngineLink], endpoint: Call) -> None:
        """`endpoint`: of a rank, given its number: an address and a free port there."""
        super().__init__(config, ranks, engines)
        self._endpoint = endpoint
        self._size = len(ranks) // config.pipeline_model_parallel_size
        self._joined = False
        self._names: list[str] = []
        self._backend = "gloo" if config.device == "cpu" else "nccl"
        self.name = f"a process group ({self._backend})"

    @property
    def _stages(self) -> range:
        return range(self.config.pipeline_model_parallel_size)

    async def prepare(self, load: Load) -> None:
        """Open the groups: the first time, after a failure, and when an engine was started again since: it is in none,
        and its label is not that of the last update.
        """
        labels = await self.on_engines(lambda engine: engine.control.weight_version())
        if self._joined and set(labels) == {str(load.version - 1)}:
            return
        await self._leave(self.engines)
        # A name of its own each time: an engine and torch know the old one still.
        self._names = [f"slime-pp_{stage}-{secrets.token_hex(4)}" for stage in self._stages]
        world = 1 + sum(len(engine.slots) for engine in self.engines)
        offsets = [1 + sum(len(one.slots) for one in self.engines[:index]) for index in range(len(self.engines))]
        for stage in self._stages:
            source = stage * self._size
            address, port = await self._endpoint(source)
            name = self._names[stage]
            joins = [
                engine.control.join_group(name, address, port, offset, world, self._backend)
                for engine, offset in zip(self.engines, offsets, strict=True)
            ]
            await asyncio.gather(self.ranks[source]("join_group", name, address, port, world), *joins)
        self._joined = True

    async def load(self, load: Load) -> None:
        """See `WeightPath.load`. After an error, engines may wait in a broadcast and could not be told to end it; a
        later update then forms the groups anew.
        """
        joined, self._joined = self._joined, False
        await self.begin(load)
        await self._send(load)
        await self.end()
        self._joined = joined

    async def _send(self, load: Load) -> None:
        for stage in self._stages:
            ranks = self.ranks[stage * self._size : (stage + 1) * self._size]
            await asyncio.gather(*(rank("begin", True) for rank in ranks))
            last = False
            while not last:
                # The ranks of a stage gather together, and the first of them sends.
                bucket = (await asyncio.gather(*(rank("next_bucket") for rank in ranks)))[0]
                last = bucket.last
                label = str(load.version) if last and stage == self._stages[-1] else None
                receive = [
                    engine.control.receive_bucket(
                        self._names[stage], bucket.names, bucket.dtypes, bucket.shapes, LOAD_FORMAT, label
                    )
                    for engine in self.engines
                ]
                await asyncio.gather(ranks[0]("send"), *receive)

    async def close(self) -> None:
        """Engines that outlive the run leave its groups."""
        await self._leave([engine for engine in self.engines if engine.host is None])

    async def _leave(self, engines: Sequence[EngineLink]) -> None:
        """Best effort: a group that is left behind in an engine costs a few buffers."""
        with suppress(RequestError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for name in self._names:
                    await asyncio.gather(*(engine.control.leave_group(name) for engine in engines))


class DiskPath(WeightPath):
    """A complete checkpoint in --update-weight-disk-dir."""

    name = "disk"

    async def prepare(self, load: Load) -> None:
        """Write the checkpoint, and bring it to the engines' hosts when they keep one of their own."""
        written = (await self.on_ranks("write_full", load.version, self.root))[0]
        self._folder = written.folder
        load.metrics["update_weights_bytes"] = float(written.sent)
        if self.config.update_weight_local_checkpoint_dir:
            await self.on_engines(lambda engine: _pull(engine, self._folder, self.local))

    @property
    def root(self) -> str:
        """--update-weight-disk-dir, absolute."""
        if self.config.update_weight_disk_dir is None:
            raise WeightUpdateError("--update-weight-transport disk needs --update-weight-disk-dir")
        return str(Path(self.config.update_weight_disk_dir).resolve())

    @property
    def local(self) -> str:
        """--update-weight-local-checkpoint-dir, absolute."""
        return str(Path(self.config.update_weight_local_checkpoint_dir or "").resolve())

    async def load(self, load: Load) -> None:
        """See `WeightPath.load`."""
        source = self.local if self.config.update_weight_local_checkpoint_dir else self._folder

        async def read(engine: EngineLink) -> None:
            load.touched.add(engine.control.url)
            await engine.control.update_from_disk(source, str(load.version))

        await self.on_engines(read)

    async def finish(self, load: Load) -> None:
        """Remove the folder, unless --update-weight-disk-keep-files."""
        if not self.config.update_weight_disk_keep_files:
            await asyncio.to_thread(remove_version, Path(self.root), load.version)


class DeltaPath(DiskPath):
    """What changed, in --update-weight-disk-dir, applied to --update-weight-local-checkpoint-dir on each host."""

    name = "delta over disk"

    async def prepare(self, load: Load) -> None:
        """Write the difference and apply it on the hosts; a host that cannot apply it is given a full version."""
        written = (await self.on_ranks("write_delta", load.version, self.root))[0]
        load.metrics |= {
            "update_weights_bytes": float(written.sent),
            "update_weights_full_bytes": float(written.full),
            "update_weights_changed_tensors": float(written.changed),
            "update_weights_reseeded": 0.0,
        }
        refused: list[str] = []

        async def apply(engine: EngineLink) -> None:
            try:
                await _pull(engine, written.folder, self.local)
            except DeltaError as error:
                refused.append(f"{engine.control.url}: {error}")

        await self.on_engines(apply)
        if refused:
            await self._seed_again(load, refused)

    async def _seed_again(self, load: Load, refused: list[str]) -> None:
        full = (await self.on_ranks("write_full", load.version, self.root))[0]
        load.metrics["update_weights_bytes"] += float(full.sent)
        load.metrics["update_weights_reseeded"] = float(len(refused))
        try:
            await self.on_engines(lambda engine: _pull(engine, full.folder, self.local))
        except DeltaError as error:
            raise WeightUpdateError(
                f"{'; '.join(refused)}; the full version that was sent instead was refused as well: {error}"
            ) from error


async def _pull(engine: EngineLink, folder: str, local: str) -> None:
    if engine.host is None:
        raise WeightUpdateError(
            f"{engine.control.url} was not started by this run, which therefore cannot write its "
            "--update-weight-local-checkpoint-dir; without that flag, and with --update-weight-mode full, it reads "
            "--update-weight-disk-dir itself"
        )
    await engine.host("pull_weights", folder, local)
