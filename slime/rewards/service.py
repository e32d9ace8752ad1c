"""`GradingService`: one door to every grader, those that run here and the one that runs elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from slime.rewards.graders import REMOTE
from slime.rewards.pool import GradeRequest, GraderPool
from slime.rewards.verdict import Verdict

if TYPE_CHECKING:
    from types import TracebackType

    from slime.rewards.remote import RemoteGrader, RemoteOptions

NO_ADDRESS = "remote_rm needs the address of the grader: --rm-url http://HOST:PORT/PATH"


class GradingService:
    """Sends each request to the worker pool, or to the remote grader if it names ``remote_rm``.

    Use it as an asynchronous context manager.
    """

    def __init__(self, workers: int = 2, time_limit: float = 5.0, remote: RemoteOptions | None = None) -> None:
        """
        Args:
            workers: processes that grade; see `GraderPool`.
            time_limit: seconds for one response.
            remote: how the remote grader is asked; None = there is none.
        """
        self._pool = GraderPool(workers, time_limit)
        self._remote: RemoteGrader | None = None
        if remote is not None:
            from slime.rewards.remote import RemoteGrader

            self._remote = RemoteGrader(remote)

    async def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """Verdicts in the order of the requests, without blocking the running loop.

        Raises:
            RuntimeError: if the service is closed.
        """
        away = [place for place, request in enumerate(requests) if request.rm_type.strip() == REMOTE]
        if not away:
            return await self._pool.grade(requests)
        verdicts = dict.fromkeys(away, Verdict.grader_error(NO_ADDRESS))
        if self._remote is not None:
            verdicts.update(zip(away, await self._remote.grade([requests[place] for place in away]), strict=True))
        here = [place for place in range(len(requests)) if place not in verdicts]
        verdicts.update(zip(here, await self._pool.grade([requests[place] for place in here]), strict=True))
        return [verdicts[place] for place in range(len(requests))]

    async def close(self) -> None:
        """Stop the workers and end the connections."""
        self._pool.close()
        if self._remote is not None:
            await self._remote.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
