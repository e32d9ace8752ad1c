"""One weight update: from the trainer's ranks to every engine, all or nothing in the version label."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from ray.actor import ActorHandle

from slime.cluster.errors import cause_of
from slime.config import Config
from slime.sglang.control import EngineControl
from slime.sglang.http import RequestError
from slime.weights.transport import LOAD_FORMAT, WeightUpdateError
from slime.weights.transport_disk import remove_version

Transport = Literal["shared memory", "CUDA IPC", "disk"]


class WeightSync:
    """Pushes weights. Every successful push raises the version by one; engines stamp it on what they generate."""

    def __init__(
        self, config: Config, trainers: Sequence[ActorHandle], controls: Sequence[EngineControl], version: int
    ) -> None:
        """
        Args:
            config: the resolved configuration.
            trainers: actors of all ranks, rank 0 first.
            controls: one for each engine.
            version: of the last push; the next one gets the following number.
        """
        self.config = config
        self.trainers = trainers
        self.controls = controls
        self.version = version
        self._checked = False

    @property
    def transport(self) -> Transport:
        """How weights travel in this run."""
        if self.config.update_weight_transport == "disk":
            return "disk"
        return "shared memory" if self.config.device == "cpu" else "CUDA IPC"

    async def push(self) -> float:
        """Hand the trainer's weights to all engines as the next version; returns the seconds that it took.

        Raises:
            WeightUpdateError: an engine did not take them. The version stays what it was, and the message says what
                each engine reports.
        """
        begun = time.monotonic()
        if not self._checked:
            await self._all("check_weights")
            self._checked = True
        version = self.version + 1
        await self._each("pause")
        try:
            await self._load(version)
            await self._require_version(version)
            if self.config.check_weight_update_equal:
                await self._prove_complete(version)
        except (RequestError, WeightUpdateError) as error:
            raise WeightUpdateError(await self._explain(version, error)) from error
        finally:
            with suppress(RequestError):  # a dead engine cannot resume, and its death is reported already
                await self._each("resume")
        self.version = version
        return time.monotonic() - begun

    async def _load(self, version: int) -> None:
        if self.transport == "disk":
            await self._load_from_disk(version)
        else:
            await self._load_from_memory(version)

    async def _load_from_memory(self, version: int) -> None:
        await self._each("begin_update")
        try:
            await self._send_buckets(version)
        except (RequestError, WeightUpdateError):
            with suppress(RequestError):  # the first error says more
                await self._each("end_update")
            raise
        await self._each("end_update")

    async def _send_buckets(self, version: int) -> None:
        await self._all("begin_weights")
        last = False
        while not last:
            answers = await self._all("next_bucket", self.config.rollout_num_gpus_per_engine)
            payloads, last = answers[0]
            await self._each("load_bucket", payloads, LOAD_FORMAT, str(version) if last else None)

    async def _load_from_disk(self, version: int) -> None:
        root = self.config.update_weight_disk_dir
        if root is None:
            raise WeightUpdateError("--update-weight-transport disk needs --update-weight-disk-dir")
        folders = await self._all("write_weights", version, str(Path(root).resolve()))
        await self._each("update_from_disk", folders[0], str(version))
        if not self.config.update_weight_disk_keep_files:
            remove_version(Path(root), version)

    async def _require_version(self, version: int) -> None:
        reported = await self._each("weight_version")
        for control, label in zip(self.controls, reported, strict=True):
            if label != str(version):
                raise WeightUpdateError(f"{control.url} accepted the update but reports version {label!r}")

    async def _prove_complete(self, version: int) -> None:
        """Overwrite the engines' weights with noise, push again, compare checksums: shows that nothing is missed."""
        before = await self._each("checksums")
        await self._each("scramble")
        noise = await self._each("checksums")
        await self._load(version)
        after = await self._each("checksums")
        for control, first, scrambled, second in zip(self.controls, before, noise, after, strict=True):
            stale = sorted(name for name in first if first[name] != second.get(name))
            if stale:
                raise WeightUpdateError(
                    f"{control.url}: {len(stale)} of {len(first)} tensors are not what the update should have left: "
                    f"{', '.join(stale[:5])}"
                )
            if first and all(first[name] == scrambled.get(name) for name in first):
                raise WeightUpdateError(f"{control.url} kept its weights when asked to overwrite them")

    async def _explain(self, version: int, error: Exception) -> str:
        states = await asyncio.gather(*(c.weight_version() for c in self.controls), return_exceptions=True)
        reports = [
            f"{control.url} does not answer" if isinstance(state, BaseException) else f"{control.url} reports {state!r}"
            for control, state in zip(self.controls, states, strict=True)
        ]
        return (
            f"weights of version {version} were not loaded over {self.transport}: {error}. The version stays "
            f"{self.version}; {'; '.join(reports)}"
        )

    async def _all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a trainer's method on every rank, rank 0's answer first."""
        try:
            return list(await asyncio.gather(*(getattr(t, method).remote(*arguments) for t in self.trainers)))
        except WeightUpdateError as error:
            raise WeightUpdateError(str(cause_of(error))) from error

    async def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every engine's control."""
        return list(await asyncio.gather(*(getattr(control, method)(*arguments) for control in self.controls)))
