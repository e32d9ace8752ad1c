"""``python -m slime.rollout.hook_probe``: try a run's hooks, in a process that may be killed.

Preflight runs it, because importing and calling a hook runs whatever its module does. Standard input holds one JSON
object: ``config`` maps Config fields to values, ``prompt``, ``label`` and ``response`` are the sample to try. It prints
one line of JSON before each hook, ``{"hook": name, "flag": flag, "path": path}``, so that the last line tells which one
hangs, one for each that does not fit, with ``stage`` and ``error``, and ``{"done": true}`` at the end: a hook may end
the process with status 0.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from slime.config import REGISTRY, Config
from slime.config.groups.algorithm import names_own_function
from slime.rollout.errors import RolloutError
from slime.rollout.filters import decision
from slime.rollout.hook import Hook
from slime.rollout.hook_call import HookFailedError, HookFunction
from slime.rollout.hook_command import characters
from slime.rollout.hook_loading import HookError
from slime.rollout.hook_trial import Trial
from slime.rollout.hooks import HOOKS

CALL_SECONDS = 60.0


def probe(trial: Trial, wanted: list[tuple[Hook, str]]) -> None:
    """Load and try hooks; prints what was found."""
    for hook, path in wanted:
        about = {"hook": hook.name, "flag": hook.flag, "path": path}
        print(json.dumps(about), flush=True)
        stage = "load"
        try:
            function = HookFunction(hook, path, min(trial.config.hook_timeout, CALL_SECONDS))
            stage = "result"
            trial.run(function)
            if hook.name == "dynamic-filter":
                _try_pieces(trial, function)
        except HookFailedError as error:
            print(json.dumps({**about, "stage": "call", "error": str(error)}), flush=True)
        except (HookError, RolloutError, ValueError) as error:
            print(json.dumps({**about, "stage": stage, "error": str(error)}), flush=True)


def _try_pieces(trial: Trial, function: HookFunction) -> None:
    """A filter gets a longer group when a trajectory came in pieces; the pieces share one rollout id."""
    group = trial.group()
    first = replace(group[0], rollout_id=1_000_000)
    pieces = [first, replace(first), *group[1:]]
    function.call("a group in which one trajectory came in two pieces", decision, trial.config, pieces)


def given(config: Config) -> list[tuple[Hook, str]]:
    """The hooks that a configuration names; a grader of groups and one of samples have the same flag."""
    unused = "custom-rm" if config.group_rm else "custom-rm-group"
    found: list[tuple[Hook, str]] = []
    for hook in HOOKS:
        flag, value = REGISTRY.by_field(hook.field), getattr(config, hook.field)
        if hook.name == unused or value is None or value == flag.default:
            continue
        paths = [value] if isinstance(value, str) else list(value)
        found += [(hook, path) for path in paths if not names_own_function(flag, path)]
    return found


def main() -> int:
    """Probe the hooks of standard input."""
    request: dict[str, Any] = json.load(sys.stdin)
    values: dict[str, Any] = {
        field: tuple(value) if REGISTRY.by_field(field).many and value is not None else value
        for field, value in request["config"].items()
    }
    config = Config(**values)
    # A byte is a token: loading the run's tokenizer would take longer than all the rest.
    trial = Trial(config, characters(), request["prompt"], request["label"], request["response"])
    probe(trial, given(config))
    print(json.dumps({"done": True}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
