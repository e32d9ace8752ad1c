"""remote_rm: a grader behind an HTTP address. Its failures are grader errors, and cannot hold up the run.

Request: POST of ``{"prompt", "response", "label"}``. Reply: a number, or an object of numbers, one of them the score.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from slime.rewards.pool import GradeRequest
from slime.rewards.verdict import Verdict

MAX_REPLY = 1 << 20
CHUNK = 1 << 16
# Statuses that may pass by themselves; any other refusal is the request's own fault and is not repeated.
PASSING = (408, 425, 429, 500, 502, 503, 504)


class RemoteAddressError(ValueError):
    """--rm-url is no address of a grader."""


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How the remote grader is asked.

    Attributes:
        url: its address, http or https.
        reward_key: entry of a reply that is an object; None = "score".
        attempts: for one response.
        timeout: seconds for one attempt, connecting included.
        first_wait, longest_wait: seconds before the second attempt, and the most between two; doubled each time.
        connections: at most so many requests at once.
    """

    url: str
    reward_key: str | None = None
    attempts: int = 10
    timeout: float = 120.0
    first_wait: float = 1.0
    longest_wait: float = 30.0
    connections: int = 64

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RemoteAddressError(f"--rm-url {self.url!r} is no address; write http://HOST:PORT/PATH.")
        if self.attempts < 1 or self.timeout <= 0 or self.connections < 1:
            raise ValueError("a remote grader needs at least 1 attempt, 1 connection and a timeout above 0 seconds.")


class RemoteGrader:
    """Asks the grader at `RemoteOptions.url`. Use it as an asynchronous context manager, or call `close`."""

    def __init__(self, options: RemoteOptions) -> None:
        self.options = options
        self._session: aiohttp.ClientSession | None = None

    async def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """Verdicts in the order of the requests. A reply that is late, too long or unreadable is a grader error."""
        if self._session is None:
            # No proxy of the environment: a grader on this machine or in the cluster must not be asked through one.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.options.connections),
                timeout=aiohttp.ClientTimeout(total=self.options.timeout),
                trust_env=False,
            )
        return list(await asyncio.gather(*(self._grade(self._session, request) for request in requests)))

    async def close(self) -> None:
        """End the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _grade(self, session: aiohttp.ClientSession, request: GradeRequest) -> Verdict:
        begin = time.perf_counter()
        verdict = await self._ask(session, request)
        return dataclasses.replace(verdict, milliseconds=1000 * (time.perf_counter() - begin))

    async def _ask(self, session: aiohttp.ClientSession, request: GradeRequest) -> Verdict:
        body = {"prompt": request.prompt, "response": request.response, "label": request.label}
        failure = ""
        for attempt in range(self.options.attempts):
            if attempt:
                wait = min(self.options.first_wait * 2 ** (attempt - 1), self.options.longest_wait)
                # Spread, so that a grader that comes back is not asked by everyone at the same moment.
                await asyncio.sleep(wait + random.random() * min(wait, 1.0))
            try:
                status, reply = await self._post(session, body)
            except (aiohttp.ClientError, TimeoutError) as error:
                failure = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                continue
            if status == 200:
                return read_reply(reply, self.options.reward_key)
            failure = f"HTTP status {status}"
            if status not in PASSING:
                return Verdict.grader_error(f"{self.options.url} answers with {failure}")
        times = "once" if self.options.attempts == 1 else f"{self.options.attempts} times"
        return Verdict.grader_error(f"{self.options.url} asked {times} without a reply; the last: {failure}")

    async def _post(self, session: aiohttp.ClientSession, body: dict[str, Any]) -> tuple[int, bytes]:
        async with session.post(self.options.url, json=body, allow_redirects=False) as response:
            received = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK):
                received += chunk
                if len(received) > MAX_REPLY:
                    break
            return response.status, bytes(received)


def read_reply(reply: bytes, reward_key: str | None) -> Verdict:
    """A verdict from the body of a reply: correct above 0, else wrong; "grader-error" for a body that is no reward."""
    if len(reply) > MAX_REPLY:
        return Verdict.grader_error(f"the reply is longer than {MAX_REPLY} bytes")
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return Verdict.grader_error(f"the reply is no JSON: {reply[:40]!r}")
    extra: dict[str, float] = {}
    if isinstance(value, dict):
        extra = {str(name): float(entry) for name, entry in value.items() if _is_number(entry)}
        key = reward_key or "score"
        if key not in extra:
            return Verdict.grader_error(
                f"the reply has no number {key!r}; it has {', '.join(extra) or 'none'}. --reward-key names one"
            )
        value = extra[key]
    if not _is_number(value):
        return Verdict.grader_error(f"the reply is {str(value)[:40]!r}, not a finite number")
    return Verdict("correct" if value > 0 else "wrong", float(value), f"the remote grader's reward {value:g}", extra)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or (isinstance(value, int) and abs(value) > 10**12):
        return False
    return math.isfinite(value)
