"""A loaded hook: called with its arguments, limited in time, and its result checked, every time."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from typing import Any

from slime.rollout.errors import RolloutError
from slime.rollout.hook import Hook
from slime.rollout.hook_loading import HookError, accepted, is_async, load_hook, refuse
from slime.rollout.hook_results import ResultError
from slime.rollout.time_limit import BlockedError, Stepwise, run_limited

Check = Callable[[Any], Any]
BLOCKING_SECONDS = 60.0
"""Generation stands still while a hook of a sample or a group computes, so it must come back sooner than others."""


class HookFailedError(HookError):
    """A hook raised, or took too long. Unlike a hook whose result is unusable, it may succeed with another sample."""


class HookFunction:
    """A hook that was loaded and fits."""

    def __init__(self, hook: Hook, path: str, timeout: float) -> None:
        """
        Args:
            hook: the kind.
            path: its import path.
            timeout: seconds that one call may take, ``--hook-timeout``.

        Raises:
            HookError: see `load_hook`.
        """
        self.hook = hook
        self.path = path
        self.timeout = timeout
        self.function = load_hook(hook, path)
        self.is_async = is_async(self.function)
        self._accepted = accepted(hook, self.function)
        beside_generation = hook.place in ("sample", "group")
        self._blocking = min(timeout, BLOCKING_SECONDS) if beside_generation else timeout

    def refuse(self, found: str, subject: str = "") -> HookError:
        """An error of this hook; `subject` is the sample or round that it was called for."""
        return refuse(self.hook, self.path, found, subject)

    async def __call__(self, subject: str, check: Check, *arguments: Any, **optional: Any) -> Any:
        """Call and await it.

        Args:
            subject: what the call is about, for messages.
            check: gets the result and returns what to use; raises `ResultError` for an unusable one.
            arguments: those of `Hook.parameters`.
            optional: those of `Hook.optional`; passed on if the function takes them.

        Raises:
            HookFailedError: it raised or took too long.
            HookError: its result is unusable.
        """
        try:
            async with asyncio.timeout(self.timeout) as limit:
                result = run_limited(lambda: self.function(*arguments, **self._taken(optional)), self._blocking)
                if inspect.isawaitable(result):
                    result = await Stepwise(result, self._blocking)
        except BlockedError as error:
            raise self._blocked(error, subject) from None
        except TimeoutError as error:
            if limit.expired():
                raise self._failed(f"it had not returned after {self.timeout:g} s (--hook-timeout).", subject) from None
            raise self._raised(error, subject) from error
        except (HookError, RolloutError):
            raise
        except (Exception, SystemExit) as error:  # whatever a user's function does
            raise self._raised(error, subject) from error
        return self._checked(result, check, subject)

    def call(self, subject: str, check: Check, *arguments: Any, **optional: Any) -> Any:
        """Call a hook of the form "sync" or "class"; as `__call__` otherwise."""
        try:
            result = run_limited(lambda: self.function(*arguments, **self._taken(optional)), self._blocking)
        except BlockedError as error:
            raise self._blocked(error, subject) from None
        except (Exception, SystemExit) as error:  # whatever a user's function does
            raise self._raised(error, subject) from error
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise self.refuse("it returned something to await; it must return its result itself.", subject)
        return self._checked(result, check, subject)

    def _taken(self, optional: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in optional.items() if name in self._accepted}

    def _checked(self, result: Any, check: Check, subject: str) -> Any:
        try:
            return check(result)
        except ResultError as error:
            raise self.refuse(f"it returned {error}", subject) from error

    def _failed(self, found: str, subject: str) -> HookFailedError:
        return HookFailedError(str(self.refuse(found, subject)))

    def _raised(self, error: BaseException, subject: str) -> HookFailedError:
        # The last place in the user's own code says more than where a library noticed.
        frames = traceback.extract_tb(error.__traceback__)
        own = inspect.getsourcefile(inspect.unwrap(self.function)) if inspect.isroutine(self.function) else None
        place = next((one for one in reversed(frames) if one.filename == own), frames[-1])
        return self._failed(f"it raised {error!r} at {place.filename}:{place.lineno}.", subject)

    def _blocked(self, error: BlockedError, subject: str) -> HookFailedError:
        what = "it held up every other sample" if self._blocking < self.timeout else "it had not returned"
        remedy = "; await what takes long, or put it into asyncio.to_thread" if self.is_async else ""
        return self._failed(f"{what} after {self._blocking:g} s without a break{error}{remedy}.", subject)
