"""Time limits for code that is not ours: a coroutine that never ends, and a call that never lets go of the thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class BlockedError(BaseException):
    """The code held the thread too long. Not an Exception, so that the code's own handlers do not swallow it."""


def _interrupt(_: int, frame: FrameType | None) -> None:
    place = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
    raise BlockedError(place)


def run_limited(work: Callable[[], T], seconds: float) -> T:
    """Call `work`; interrupt it after `seconds`.

    Uses the process's alarm, so it limits nothing outside the main thread, nor where something else uses the alarm;
    and one call into compiled code is interrupted only when it returns.

    Raises:
        BlockedError: the time is over; its text is the place where the code was.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, _interrupt):
        return work()
    signal.signal(signal.SIGALRM, _interrupt)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds)[0]
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, outer)


class Stepwise(Awaitable[T]):
    """Awaits a coroutine and limits every stretch in which it does not give the event loop back."""

    def __init__(self, work: Awaitable[T], seconds: float) -> None:
        """
        Args:
            work: what to await.
            seconds: limit of one stretch.
        """
        self._work = work
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        if not hasattr(steps, "throw"):  # an awaitable that is no coroutine has no code of its own to limit
            return (yield from steps)
        advance: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                waited_for = run_limited(advance, self._seconds)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                answer = yield waited_for
                advance = lambda answer=answer: steps.send(answer)  # type: ignore[misc]  # noqa: E731
            except BaseException as error:  # a cancellation, which the coroutine must see
                advance = lambda error=error: steps.throw(error)  # type: ignore[misc]  # noqa: E731
