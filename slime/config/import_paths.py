"""Import paths of functions in flags: the runtime recognises its own by name, without importing them."""

from __future__ import annotations

from collections.abc import Iterable

FULLY_ASYNC = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"
"""``--rollout-function-path`` of the schedule that generates across weight updates."""


def is_named(path: str | None, names: Iterable[str]) -> bool:
    """Whether `path` is one of `names`, however it is written.

    Args:
        path: ``package.module.function`` or ``package.module:function``; None is no name.
        names: with dots alone.
    """
    return path is not None and path.replace(":", ".") in names
