"""Supervision: whatever the driver waits for, it also watches every process that the run needs.

The first process that ends takes the run with it, with its reason. Nothing is polled over HTTP and nothing waits for a
time-out, so a killed engine is noticed within a second also while it is generating.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ray.actor import ActorHandle
from ray.exceptions import RayActorError

from slime.cluster.errors import RunFailedError, describe_death

T = TypeVar("T")
Survives = Callable[[str], Awaitable[bool]]
PING_SECONDS = 1.0
# When work fails because a process died, the process's own reason says more; it is known this much later at most.
REASON_SECONDS = 3.0


class Supervisor:
    """Watches actors from `watch_*` on; `run` awaits work and fails as soon as a watched process ends."""

    def __init__(self) -> None:
        self._watchers: list[asyncio.Task[str]] = []

    def watch_engine(self, actor: ActorHandle, name: str, survives: Survives | None = None) -> None:
        """Watch an engine's actor and its server.

        Args:
            actor: of the engine.
            name: how messages call it.
            survives: called with the reason when the server ended; it says whether the run goes on, and returns when
                the server runs again. None: the run ends with the server.
        """
        self._watchers.append(asyncio.create_task(_engine_end(actor, name, survives)))

    def watch_program(self, failure: Callable[[], str | None]) -> None:
        """Watch a program of this machine; `failure` says why it does not run, or None while it does."""
        self._watchers.append(asyncio.create_task(_program_end(failure)))

    def watch_trainer(self, actor: ActorHandle, name: str) -> None:
        """Watch a trainer's actor. `name` is how messages call it."""
        self._watchers.append(asyncio.create_task(_trainer_end(actor, name)))

    async def run(self, work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
        """Await `work` under watch.

        Raises:
            RunFailedError: a watched process ended first, or its end explains why the work failed.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, *self._watchers}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise RunFailedError(self._reason())
            if task.exception() is not None and self._watchers:
                await asyncio.wait(self._watchers, timeout=REASON_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if any(watcher.done() for watcher in self._watchers):
                    raise RunFailedError(self._reason()) from task.exception()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _reason(self) -> str:
        return "\n".join(watcher.result() for watcher in self._watchers if watcher.done())

    async def close(self) -> None:
        """Stop watching; call it before ending the processes on purpose."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        self._watchers.clear()


async def _engine_end(actor: ActorHandle, name: str, survives: Survives | None) -> str:
    while True:
        try:
            reason = await actor.watch.remote()
        except RayActorError as error:
            return describe_death(f"the actor of {name}", error)
        if not reason:
            return f"{name} was stopped while the run still needed it"
        if survives is None or not await survives(f"{name}: {reason}"):
            return f"{name}: {reason}"


async def _program_end(failure: Callable[[], str | None]) -> str:
    while (reason := failure()) is None:
        await asyncio.sleep(PING_SECONDS)
    return reason


async def _trainer_end(actor: ActorHandle, name: str) -> str:
    # A trainer does one thing at a time, so a ping waits behind its work; if the trainer dies, Ray fails the ping.
    while True:
        try:
            await actor.ping.remote()
        except RayActorError as error:
            return describe_death(name, error)
        await asyncio.sleep(PING_SECONDS)
