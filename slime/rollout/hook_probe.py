"""``python -m slime.rollout.hook_probe JSON``: import hooks and check them, in a process that may be killed.

Preflight runs it, because importing a hook runs whatever its module does. The argument maps Config fields to lists of
import paths. One line of JSON before each import, ``{"loading": path}``, and one for each hook that does not fit,
``{"flag": ..., "error": ...}``: when the process has to be killed, the last line tells which import hangs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from slime.rollout.hook import Hook
from slime.rollout.hook_loading import HookError, load_hook
from slime.rollout.hooks import ROLLOUT_HOOKS
from slime.rollout.trainer_hooks import TRAINER_HOOKS


def _say(**words: str) -> None:
    print(json.dumps(words), flush=True)


def _kinds(field: str, is_group: bool) -> list[Hook]:
    """The kinds of hook of a field; a grader of groups and one of samples have the same flag."""
    unused = "custom-rm" if is_group else "custom-rm-group"
    return [hook for hook in (*ROLLOUT_HOOKS, *TRAINER_HOOKS) if hook.field == field and hook.name != unused]


def probe(paths: Mapping[str, Sequence[str]], is_group: bool) -> None:
    """Load every hook; says what does not fit."""
    for field, given in paths.items():
        for hook in _kinds(field, is_group):
            for path in given:
                _say(loading=path, flag=hook.flag)
                try:
                    load_hook(hook, path)
                except HookError as error:
                    _say(flag=hook.flag, error=str(error))


def main(words: Sequence[str]) -> int:
    """Probe the hooks of the first word; the second is ``group`` when graders get whole groups."""
    probe(json.loads(words[0]), "group" in words[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
