"""One weight update: from the trainer's ranks to every engine, all or nothing in the version label."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slime.cluster.weight_paths import (
    Call,
    DeltaPath,
    DiskPath,
    EngineLink,
    GroupPath,
    Load,
    MemoryPath,
    WeightPath,
)
from slime.config import Config
from slime.sglang.http import RequestError
from slime.weights.delta import DeltaError
from slime.weights.folders import FolderError
from slime.weights.source import Checked
from slime.weights.transport import WeightUpdateError


def choose_paths(
    config: Config, ranks: Sequence[Call], engines: Sequence[EngineLink], endpoint: Call
) -> list[WeightPath]:
    """How weights travel in a run: by the flags, and by whether an engine shares the trainer's devices.

    Args:
        config: the resolved configuration.
        ranks, engines, endpoint: see `WeightPath` and `GroupPath`.
    """
    if config.update_weight_mode == "delta":
        return [DeltaPath(config, ranks, engines)]
    if config.update_weight_transport == "disk":
        return [DiskPath(config, ranks, engines)]
    # Colocated engines may be more than the trainer's ranks; those behind them share no GPU with any.
    near = [one for one in engines if config.colocate and max(one.slots, default=len(ranks)) < len(ranks)]
    far = [one for one in engines if one not in near]
    paths: list[WeightPath] = [MemoryPath(config, ranks, near)] if near else []
    return [*paths, GroupPath(config, ranks, far, endpoint)] if far else paths


@dataclass(frozen=True)
class Pushed:
    """An update that went well.

    Attributes:
        seconds: that it took, and of these those in which the engines could not generate.
        metrics: of the update, by name: `update_weights_bytes` and, of the delta path, `update_weights_full_bytes`,
            `update_weights_changed_tensors` and `update_weights_reseeded` (engines that were given everything).
    """

    seconds: float
    paused_seconds: float
    metrics: dict[str, float]


class WeightSync:
    """Pushes weights. Every successful push raises the version by one; engines stamp it on what they generate."""

    def __init__(
        self, config: Config, ranks: Sequence[Call], engines: Sequence[EngineLink], endpoint: Call, version: int
    ) -> None:
        """
        Args:
            config: the resolved configuration.
            ranks: `slime.weights.source.WeightSource.call` of every trainer rank, in order.
            engines: all that serve the trained model.
            endpoint: of a rank, given its number: an address and a free port there.
            version: of the last push; the next one gets the following number.
        """
        self.config = config
        self.ranks = ranks
        self.engines = engines
        self.paths = choose_paths(config, ranks, engines, endpoint)
        self.version = version
        self._size: int | None = None

    @property
    def transport(self) -> str:
        """How weights travel in this run, in words."""
        return " and ".join(path.name for path in self.paths)

    async def push(self) -> Pushed:
        """Hand the trainer's weights to all engines as the next version.

        Raises:
            WeightUpdateError: an engine did not take them. The version stays what it was, and the message says what
                each engine holds. Engines that hold a mixture stay paused.
        """
        begun = time.monotonic()
        load = Load(self.version + 1)
        try:
            if self._size is None:
                checked: Checked = (await asyncio.gather(*(rank("check") for rank in self.ranks)))[0]
                if checked.repacked:
                    await self._require_sessions()
                self._size = checked.size
            load.metrics["update_weights_bytes"] = float(self._size or 0)
            for path in self.paths:
                await path.prepare(load)
            paused = time.monotonic()
            await self._load_paused(load)
        except (RequestError, WeightUpdateError, DeltaError, FolderError) as error:
            raise WeightUpdateError(await self._explain(load, error)) from error
        finally:
            for path in self.paths:
                await path.finish(load)
        self.version = load.version
        now = time.monotonic()
        return Pushed(now - begun, now - paused, load.metrics)

    async def _load_paused(self, load: Load) -> None:
        await self._each("pause")
        try:
            for path in self.paths:
                await path.load(load)
            await self._require_version(load.version)
            if self.config.check_weight_update_equal:
                await self._prove_complete(load)
            load.touched.clear()
        finally:
            # What a mixture of two versions generates belongs to no policy.
            whole = [engine for engine in self.engines if engine.control.url not in load.touched]
            answers = await asyncio.gather(*(one.control.resume() for one in whole), return_exceptions=True)
            failed = [one for one in answers if isinstance(one, BaseException) and not isinstance(one, RequestError)]
            if failed:  # a dead engine cannot resume, and its death is reported already
                raise failed[0]

    async def close(self) -> None:
        """Leave the engines that outlive the run as they were found."""
        for path in self.paths:
            await path.close()

    async def _require_sessions(self) -> None:
        """Engines must undo, for an update, what they made of the weights that they loaded."""
        for engine in self.engines:
            if "/begin_weight_update" not in await engine.control.routes():
                raise WeightUpdateError(
                    f"{engine.control.url} repacks INT4 weights when it loads them and has no begin_weight_update, so "
                    "it cannot take others; use a newer SGLang (0.5.23 has it), or an FP8 or bfloat16 --hf-checkpoint"
                )

    async def _require_version(self, version: int) -> None:
        reported = await self._each("weight_version")
        for engine, label in zip(self.engines, reported, strict=True):
            if label != str(version):
                raise WeightUpdateError(f"{engine.control.url} accepted the update but reports version {label!r}")

    async def _prove_complete(self, load: Load) -> None:
        """Compare the engines' tensors with the trainer's, then overwrite them with noise, push again and compare:
        the second part shows of every tensor that the update replaces it, also of those that have another layout.
        """
        before = await self._each("checksums")
        expected = await self._expected()
        for engine, found in zip(self.engines, before, strict=True):
            if len(engine.slots) == 1:
                _compare(engine, {f"rank 0: {name}": value for name, value in expected.items()}, found, "the trainer's")
        await self._each("scramble")
        noise = await self._each("checksums")
        for path in self.paths:
            await path.load(load)
        after = await self._each("checksums")
        for engine, first, scrambled, second in zip(self.engines, before, noise, after, strict=True):
            _compare(engine, first, second, "what the first push left")
            if first and all(first[name] == scrambled.get(name) for name in first):
                raise WeightUpdateError(f"{engine.control.url} kept its weights when asked to overwrite them")

    async def _expected(self) -> dict[str, str]:
        if self.config.device != "cpu":  # SGLang hashes with a GPU kernel of its own there
            return {}
        found: dict[str, str] = (await asyncio.gather(*(rank("expected_checksums") for rank in self.ranks)))[0]
        return found

    async def _explain(self, load: Load, error: Exception) -> str:
        states = await asyncio.gather(*(one.control.weight_version() for one in self.engines), return_exceptions=True)
        reports = []
        for engine, state in zip(self.engines, states, strict=True):
            url = engine.control.url
            if isinstance(state, BaseException):
                reports.append(f"{url} does not answer")
            elif state == str(load.version):
                reports.append(f"{url} holds version {state}")
            elif url in load.touched:
                reports.append(
                    f"{url} reports version {state!r}, but may hold a part of version {load.version}; it stays paused"
                )
            else:
                reports.append(f"{url} still holds version {state!r}")
        return (
            f"weights of version {load.version} were not loaded over {self.transport}: {error}. The version stays "
            f"{self.version}; {'; '.join(reports)}"
        )

    async def _each(self, method: str) -> list[Any]:
        """Call a method of every engine's control."""
        return list(await asyncio.gather(*(getattr(engine.control, method)() for engine in self.engines)))


def _compare(engine: EngineLink, wanted: dict[str, str], found: dict[str, str], whose: str) -> None:
    stale = sorted(name for name, value in wanted.items() if found.get(name, value) != value)
    lost = sorted(set(wanted) - set(found)) if whose.startswith("what") else []
    if stale or lost:
        raise WeightUpdateError(
            f"{engine.control.url}: {len(stale) + len(lost)} of {len(wanted)} tensors are not {whose}: "
            f"{', '.join([*stale, *lost][:5])}"
        )


__all__ = ["Call", "EngineLink", "Pushed", "WeightSync", "choose_paths"]
