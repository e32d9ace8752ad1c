"""Work ends with the first process that ends. Actors are played by objects with the same two methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayActorError

from slime.cluster.errors import RunFailedError
from slime.cluster.supervision import Supervisor

pytestmark = pytest.mark.runtime


def actor(**methods: Callable[[], Awaitable[Any]]) -> Any:
    """An object whose `name.remote()` is the coroutine `methods[name]()`."""
    return SimpleNamespace(**{name: SimpleNamespace(remote=method) for name, method in methods.items()})


def ends_after(seconds: float, result: object) -> Callable[[], Awaitable[Any]]:
    async def wait() -> Any:
        await asyncio.sleep(seconds)
        if isinstance(result, BaseException):
            raise result
        return result

    return wait


FOREVER = 1000.0


def supervised(
    work: Callable[[], Awaitable[Any]], engine: Any = None, trainer: Any = None
) -> tuple[Any, BaseException | None]:
    async def run() -> tuple[Any, BaseException | None]:
        supervisor = Supervisor()
        if engine is not None:
            supervisor.watch_engine(engine, "engine 0")
        if trainer is not None:
            supervisor.watch_trainer(trainer, "trainer rank 0")
        try:
            return await supervisor.run(work()), None
        except (RunFailedError, ValueError) as error:
            return None, error
        finally:
            await supervisor.close()

    return asyncio.run(run())


def test_work_that_ends_first_gives_its_result() -> None:
    result, error = supervised(
        ends_after(0.01, 42), actor(watch=ends_after(FOREVER, None)), actor(ping=ends_after(0, None))
    )
    assert (result, error) == (42, None)


def test_a_dead_server_ends_endless_work_with_its_reason() -> None:
    _, error = supervised(ends_after(FOREVER, 42), actor(watch=ends_after(0.01, "killed by signal 9; log: ...")))
    assert isinstance(error, RunFailedError)
    assert str(error) == "engine 0: killed by signal 9; log: ..."


def test_a_dead_actor_is_named_with_ray_s_report() -> None:
    _, error = supervised(
        ends_after(FOREVER, 42),
        actor(watch=ends_after(FOREVER, None)),
        actor(ping=ends_after(0.01, RayActorError(error_msg="worker died of SIGKILL"))),
    )
    assert "trainer rank 0 ended unexpectedly" in str(error)
    assert "SIGKILL" in str(error)


def test_failed_work_is_explained_by_the_process_that_died() -> None:
    """A lost connection is only the consequence; the reason comes a moment later."""
    _, error = supervised(
        ends_after(0.01, ValueError("connection lost")), actor(watch=ends_after(0.2, "the server ended"))
    )
    assert isinstance(error, RunFailedError)
    assert "the server ended" in str(error)
    assert "connection lost" in str(error.__cause__)


def test_failed_work_keeps_its_own_error_when_all_processes_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slime.cluster.supervision.REASON_SECONDS", 0.05)
    _, error = supervised(ends_after(0.01, ValueError("bad batch")), actor(watch=ends_after(FOREVER, None)))
    assert isinstance(error, ValueError)


def test_work_is_cancelled_when_a_process_dies() -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    supervised(work, actor(watch=ends_after(0.01, "gone")))
    assert cancelled == [True]


def test_work_goes_on_while_another_engine_does_a_dead_one_s_work() -> None:
    """The second death is not survived, and its reason is the run's."""
    deaths, asked = iter(["killed once", "killed twice"]), []

    async def watch() -> str:
        await asyncio.sleep(0.01)
        return next(deaths)

    async def survives(reason: str) -> bool:
        asked.append(reason)
        return len(asked) == 1

    async def run() -> None:
        supervisor = Supervisor()
        supervisor.watch_engine(actor(watch=watch), "engine 1", survives)
        try:
            await supervisor.run(ends_after(FOREVER, None)())
        finally:
            await supervisor.close()

    with pytest.raises(RunFailedError, match=r"^engine 1: killed twice$"):
        asyncio.run(run())
    assert asked == ["engine 1: killed once", "engine 1: killed twice"]


def test_a_program_that_ends_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slime.cluster.supervision.PING_SECONDS", 0.01)
    answers = iter([None, None, "the router ended with exit code 3"])

    async def run() -> None:
        supervisor = Supervisor()
        supervisor.watch_program(lambda: next(answers))
        try:
            await supervisor.run(ends_after(FOREVER, None)())
        finally:
            await supervisor.close()

    with pytest.raises(RunFailedError, match=r"^the router ended with exit code 3$"):
        asyncio.run(run())
