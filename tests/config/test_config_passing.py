"""Server arguments that are passed on reach the server as SGLang's own parser reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from slime.config import REGISTRY, Config, ConfigError, parse_args
from slime.config.flags import Flag
from slime.config.sglang_passing import takes_part
from slime.config.sglang_table import server_arguments

PASSED_ON = [one for one in REGISTRY.values() if one.group == "engine" and one.runs]
PLANNED = [one for one in REGISTRY.values() if one.group == "engine" and not one.runs]

# Arguments whose text SGLang reads as JSON.
JSON = {
    **dict.fromkeys(
        ("radix-eviction-policy-config", "default-chat-template-kwargs", "extra-metric-labels", "mm-process-config",
         "limit-mm-data-per-request"),
        '{"a": 1}',
    ),
    "cuda-graph-config": '{"decode": {}}',
    "forward-hooks": "[]",
}  # fmt: skip

PARSER = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs

parser = argparse.ArgumentParser(allow_abbrev=False)
ServerArgs.add_cli_args(parser)
found = vars(parser.parse_args(json.load(sys.stdin)))
print()
print(json.dumps(found, default=str))
"""


def other_than_the_default(one: Flag) -> Any:
    """A value that the server would not take by itself."""
    if one.type is bool:
        return one.system_default is not True
    if one.choices is not None:
        value: Any = next((choice for choice in one.choices if choice != str(one.system_default)), one.choices[0])
    elif one.type is str:
        value = JSON.get(one.name.removeprefix("--sglang-"), "something")
    else:
        value = one.type((one.system_default or 0) + 3) if not one.many else one.type(3)
    return (one.type(value),) if one.many else one.type(value)


def test_most_arguments_are_passed_on_and_the_others_say_why_not() -> None:
    assert len(PASSED_ON) > 200
    for one in PLANNED:
        reason = takes_part(one.name.removeprefix("--sglang-"))
        assert reason is not None
        assert reason.en in one.help.en and reason.zh in one.help.zh


@pytest.mark.runtime
@pytest.mark.skipif(find_spec("sglang") is None, reason="the runtime is not installed: make runtime")
def test_every_argument_that_is_passed_on_is_read_by_sglang() -> None:
    from slime.cluster.engine_spec import server_arguments as of_config
    from slime.sglang.launch import EngineSpec, server_command, server_environment

    given = {one.field: other_than_the_default(one) for one in PASSED_ON}
    spec = EngineSpec("model", device="cpu", arguments=of_config(Config(**given)))
    words = server_command(spec, 30000)
    done = subprocess.run(
        [sys.executable, "-c", PARSER], input=json.dumps(words[3:]), capture_output=True, text=True,
        env=server_environment(spec), check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for one in PASSED_ON:
        argument = server_arguments()[one.name.removeprefix("--sglang-")]
        value = given[one.field]
        taken = found[argument.field]
        if isinstance(value, tuple):
            assert [one.type(item) for item in taken] == list(value), one.name
        elif one.name.removeprefix("--sglang-") in JSON and not isinstance(taken, str):
            assert taken == json.loads(value), one.name
        else:
            assert taken == value or one.type(taken) == value, one.name


@pytest.mark.parametrize("name", ["is-embedding", "allow-auto-truncate", "delete-ckpt-after-loading", "revision"])
def test_what_would_break_the_loop_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigError, match=f"--sglang-{name} is set by the runtime"):
        parse_args([f"--sglang-{name}"])
