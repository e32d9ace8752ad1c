"""A line now and then while a round runs, so that a slow engine and a dead one look different."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

Print = Callable[[str], None]


class Progress:
    """Counts finished samples; as an async context manager it prints every `interval` seconds."""

    def __init__(self, title: str, total: int, emit: Print | None, interval: float = 10.0) -> None:
        self.title = title
        self.total = total
        self.done = 0
        self.tokens = 0
        self._emit = emit
        self._interval = interval
        self._started = time.monotonic()
        self._ticker: asyncio.Task[None] | None = None

    def begin(self, title: str, total: int) -> None:
        """Count from 0 again, under another title."""
        self.title, self.total, self.done, self.tokens, self._started = title, total, 0, 0, time.monotonic()

    def add(self, tokens: int) -> None:
        """One more sample is finished, with a response of `tokens` tokens."""
        self.done += 1
        self.tokens += tokens

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def line(self) -> str:
        """For example ``rollout 3: 256/512 samples, 1536 tokens, 2.1 s``."""
        return f"{self.title}: {self.done}/{self.total} samples, {self.tokens} tokens, {self.seconds():.1f} s"

    async def __aenter__(self) -> Progress:
        if self._emit is not None:
            self._ticker = asyncio.create_task(self._tick(self._emit))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticker

    async def _tick(self, emit: Print) -> None:
        while True:
            await asyncio.sleep(self._interval)
            emit(self.line())
