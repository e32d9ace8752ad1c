"""Functions of the user's own: imported and checked in a process that can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from slime.config.config import REGISTRY, Config
from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.rule import Finding, Rule

# Importing torch and a serving engine takes some of it.
IMPORT_SECONDS = 120.0
_SUFFIX = "_path"


def given_hooks(config: Config) -> dict[str, list[str]]:
    """Config field -> import paths, of every flag that names functions and was given something else than its values."""
    found: dict[str, list[str]] = {}
    for flag in REGISTRY.values():
        value = getattr(config, flag.field)
        if not flag.field.endswith(_SUFFIX) or value is None or value == flag.default:
            continue
        paths = [value] if isinstance(value, str) else list(value)
        # Names that stand for the runtime's own functions are compared and never imported.
        paths = [path for path in paths if not (flag.only and path in flag.only)]
        if paths and "." in paths[0]:
            found[flag.field] = paths
    return found


def check_hooks(inputs: Inputs) -> Iterator[Finding]:
    """Every hook can be imported, and called as it will be."""
    given = given_hooks(inputs.config)
    if not given:
        return
    command = [sys.executable, "-m", "slime.rollout.hook_probe", json.dumps(given)]
    if inputs.config.group_rm:
        command.append("group")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        out, err = process.communicate(timeout=IMPORT_SECONDS)
        ended = ""
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        ended = f"had not been imported after {IMPORT_SECONDS:g} s: what does it do at its top level?"
    loading = ("", "")
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # a module that prints while it is imported
        if not isinstance(said, dict):
            continue
        if "error" in said:
            yield Finding(said["error"], "`slime hooks` shows the signatures", (said["flag"],))
        elif "loading" in said:
            loading = (said["flag"], said["loading"])
    if process.returncode and not ended:
        last = (err.strip().splitlines() or ["without a message"])[-1]
        ended = f"ended the process that imported it ({last})"
    if ended:
        yield Finding(f"{loading[0]} {loading[1]} {ended}", "move the work into the function", (loading[0],))


RULES = (
    Rule(
        id="hooks",
        row=54,
        source="verl#5076",
        title=Text("自定义函数能导入，签名也对", "Functions of your own import, and have the right signature"),
        why=Text(
            "同步与异步混用、参数个数不对，要到第一次调用才失败，那时已经生成了一轮。",
            "A coroutine where a value is expected, or a wrong number of parameters, fails at the first call, after a "
            "round "
            "has been generated.",
        ),
        data=check_hooks,
    ),
)
