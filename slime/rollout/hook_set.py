"""The hooks of one run: each loaded once, all of them before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slime.rollout.hook import Hook
from slime.rollout.hook_call import HookFunction
from slime.rollout.hook_loading import HookError
from slime.rollout.hooks import BY_NAME, ROLLOUT_HOOKS


class HookSet:
    """Loaded hooks by name."""

    def __init__(self, config: Any, hooks: Iterable[Hook] = ROLLOUT_HOOKS) -> None:
        """Load what the flags of `hooks` name.

        Args:
            config: the run's configuration.
            hooks: the kinds to load; those of the trainer are loaded in its own processes.

        Raises:
            HookError: one message for all that is wrong.
        """
        self.timeout = float(config.hook_timeout)
        self._loaded: dict[tuple[str, str], HookFunction] = {}
        self._given: dict[str, list[str]] = {}
        problems = []
        unused = "custom-rm" if config.group_rm else "custom-rm-group"
        for hook in hooks:
            paths = getattr(config, hook.field) if hook.name != unused else None
            self._given[hook.name] = [paths] if isinstance(paths, str) else list(paths or ())
            for path in self._given[hook.name]:
                try:
                    self.at(hook.name, path)
                except HookError as error:
                    problems.append(str(error))
        if problems:
            raise HookError("\n".join(problems))

    def at(self, name: str, path: str) -> HookFunction:
        """The hook `name` at an import path, loaded at its first use: a data set may have its own."""
        key = (name, path)
        if key not in self._loaded:
            self._loaded[key] = HookFunction(BY_NAME[name], path, self.timeout)
        return self._loaded[key]

    def one(self, name: str) -> HookFunction | None:
        """The hook that a flag with one value names."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[HookFunction]:
        """The hooks that a flag with several values names, in their order."""
        return [self.at(name, path) for path in self._given.get(name, ())]
