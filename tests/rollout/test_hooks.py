"""Every hook wrong in its usual ways: the message names the flag, the path, the sample or round, and the signature."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slime.config import REGISTRY, Config
from slime.rollout.hook import Hook
from slime.rollout.hook_call import HookFailedError, HookFunction
from slime.rollout.hook_command import characters
from slime.rollout.hook_loading import HookError
from slime.rollout.hook_set import HookSet
from slime.rollout.hook_trial import ATTEMPTS, Trial
from slime.rollout.hooks import BY_NAME, HOOKS, ROLLOUT_HOOKS, hook_named

ROOT = Path(__file__).parents[2]
Write = Callable[[str], str]
TRIED = [hook for hook in HOOKS if hook.name in ATTEMPTS and not hook.name.endswith("-function")]
FUNCTIONS = [hook for hook in HOOKS if hook.form != "class"]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module and gives its name, which is new every time."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def module(source: str) -> str:
        name = f"hooks_{tmp_path.name}_{len(list(tmp_path.iterdir()))}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    return module


def trial(hook: Hook) -> Trial:
    config = Config(
        n_samples_per_prompt=4, rollout_max_response_len=16, hook_timeout=5.0, group_rm=hook.name == "custom-rm-group"
    )
    return Trial(config, characters())


def attempt(hook: Hook, path: str, timeout: float = 5.0) -> str:
    one = trial(hook)
    one = replace(one, config=replace(one.config, hook_timeout=timeout))
    return one.run(HookFunction(hook, path, timeout))


def define(hook: Hook, body: str, parameters: str | None = None) -> str:
    """Source of a hook of the right form; `parameters` replaces its own."""
    keyword = "async def" if hook.form == "async" else "def"
    inside = ", ".join(hook.parameters) if parameters is None else parameters
    return f"import asyncio, time\n{keyword} f({inside}):\n    {body}\n"


def ids(hooks: list[Hook]) -> list[str]:
    return [hook.name for hook in hooks]


def check_message(hook: Hook, path: str, message: str) -> None:
    assert message.startswith(f"{hook.flag} {path}")
    assert f"expected: {hook.signature('f')}" in message


@pytest.mark.parametrize("hook", HOOKS, ids=ids(list(HOOKS)))
def test_every_hook_has_a_flag_and_a_right_example(hook: Hook, write: Write) -> None:
    assert hook.flag in REGISTRY
    name = write(hook.example)
    assert HookFunction(hook, f"{name}.f", 5.0).function is HookFunction(hook, f"{name}:f", 5.0).function
    if hook.name in ATTEMPTS:
        assert attempt(hook, f"{name}:f")


@pytest.mark.parametrize("hook", HOOKS, ids=ids(list(HOOKS)))
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_package.reward:f", "there is no module 'no_such_package'. Its folder must be the working dir"),
        ("slime.rollout.filtres:f", "there is no module 'slime.rollout.filtres'. The nearest is slime.rollout.filters"),
        ("{good}.g", "has no 'g'"),
        ("{good}.VALUE", "this is an int, which cannot be called"),
        ("{broken}.f", "raised ZeroDivisionError('division by zero') at "),
        ("{needs}.f", "imports 'no_such_library', which is not installed"),
        ("./reward.py", "this is no import path"),
        ("f", "this is no import path"),
    ],
)
def test_what_cannot_be_loaded(hook: Hook, write: Write, path: str, words: str) -> None:
    path = path.format(
        good=write("def f():\n    pass\nVALUE = 3\n"),
        broken=write("x = 1 / 0\n"),
        needs=write("import no_such_library\n"),
    )
    with pytest.raises(HookError) as error:
        HookFunction(hook, path, 5.0)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{hook.flag} {path}")
    assert "expected: " in str(error.value)


@pytest.mark.parametrize("hook", FUNCTIONS, ids=ids(FUNCTIONS))
def test_a_wrong_number_of_arguments(hook: Hook, write: Write) -> None:
    path = write(define(hook, "pass", "a, b, c, d, e, f, g, h, i")) + ":f"
    with pytest.raises(HookError, match=r"it takes .* and is called with ") as error:
        HookFunction(hook, path, 5.0)
    check_message(hook, path, str(error.value))


@pytest.mark.parametrize("hook", FUNCTIONS, ids=ids(FUNCTIONS))
def test_a_class_or_a_generator_is_no_function(hook: Hook, write: Write) -> None:
    name = write("class f:\n    pass\n" + define(hook, "yield 1").replace(" f(", " g("))
    with pytest.raises(HookError, match="this is a class; a function is needed"):
        HookFunction(hook, f"{name}:f", 5.0)
    with pytest.raises(HookError, match="it must return its result, not yield it"):
        HookFunction(hook, f"{name}:g", 5.0)


@pytest.mark.parametrize("hook", [h for h in HOOKS if h.form in ("async", "sync")], ids=lambda h: h.name)
def test_plain_instead_of_async_and_the_other_way_round(hook: Hook, write: Write) -> None:
    source = define(hook, "pass")
    wrong = source.replace("async def", "def") if hook.form == "async" else source.replace("def f", "async def f")
    path = write(wrong) + ":f"
    words = "it must be `async def`" if hook.form == "async" else "it must be a plain function"
    with pytest.raises(HookError, match=words) as error:
        HookFunction(hook, path, 5.0)
    check_message(hook, path, str(error.value))


def subject(hook: Hook) -> str:
    """What a message about one call names: the sample, the group or the round."""
    return {"sample": "sample 0 (group 0)", "group": "group 0"}.get(
        hook.place, "0" if hook.form != "class" else "first"
    )


CALLED = [hook for hook in TRIED if hook.form != "class"]
IN_PLACE = ("rollout-sample-filter", "rollout-all-samples-process", "rollout-sample-hook")


@pytest.mark.parametrize("hook", [h for h in CALLED if h.name not in IN_PLACE], ids=lambda h: h.name)
@pytest.mark.parametrize(("body", "shown"), [("return None", "None"), ("return 'x'", "'x'")])
def test_an_unusable_result(hook: Hook, write: Write, body: str, shown: str) -> None:
    path = write(define(hook, body)) + ":f"
    with pytest.raises(HookError, match=f"it returned {shown}") as error:
        attempt(hook, path)
    check_message(hook, path, str(error.value))
    assert subject(hook) in str(error.value)


@pytest.mark.parametrize("hook", [BY_NAME[name] for name in IN_PLACE], ids=lambda h: h.name)
def test_a_result_that_would_be_lost(hook: Hook, write: Write) -> None:
    path = write(define(hook, "return [1]")) + ":f"
    with pytest.raises(HookError, match=r"it returned \[1\]") as error:
        attempt(hook, path)
    check_message(hook, path, str(error.value))


@pytest.mark.parametrize("hook", CALLED, ids=ids(CALLED))
def test_a_hook_that_raises(hook: Hook, write: Write) -> None:
    name = write(define(hook, "{}['answer']"))
    with pytest.raises(HookFailedError, match=rf"it raised KeyError\('answer'\) at .*{name}.py:3") as error:
        attempt(hook, f"{name}:f")
    check_message(hook, f"{name}:f", str(error.value))
    assert subject(hook) in str(error.value)


@pytest.mark.parametrize("hook", [h for h in CALLED if h.form == "async"], ids=lambda h: h.name)
def test_a_hook_that_never_ends(hook: Hook, write: Write) -> None:
    path = write(define(hook, "await asyncio.sleep(3600)")) + ":f"
    with pytest.raises(HookFailedError, match=r"it had not returned after 0.2 s \(--hook-timeout\)") as error:
        attempt(hook, path, timeout=0.2)
    check_message(hook, path, str(error.value))


@pytest.mark.parametrize("hook", CALLED, ids=ids(CALLED))
@pytest.mark.parametrize("body", ["time.sleep(3600)", "while True: pass"], ids=["waits", "spins"])
def test_a_hook_that_blocks_everything(hook: Hook, write: Write, body: str) -> None:
    name = write(define(hook, body))
    with pytest.raises(HookFailedError, match=rf"after 0.2 s without a break at .*{name}.py:3") as error:
        attempt(hook, f"{name}:f", timeout=0.2)
    check_message(hook, f"{name}:f", str(error.value))
    assert subject(hook) in str(error.value)


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("custom-generate", "return []", "an empty list; a trajectory has at least one sample"),
        ("custom-generate", "return sample", "a sample whose status is still pending"),
        ("custom-generate", "sample.group_index = 9\n    return sample", "a sample of group 9; pieces keep their"),
        (
            "custom-generate",
            "from slime.data.sample import Status\n    sample.status = Status.COMPLETED\n    return sample",
            "response_length is 0",
        ),
        ("custom-rm", "return {'score': 1}", "a dict with the keys score; --reward-key must say which"),
        ("custom-rm", "return float('nan')", "nan; a reward is finite"),
        ("custom-rm-group", "return [1.0]", "1 rewards for 4 samples; one for each, in their order"),
        ("custom-rm-group", "return [1.0, 1.0, None, 1.0]", "None; a reward is a number"),
        ("buffer-filter", "return buffer", "3 groups; 2 were asked for"),
        ("buffer-filter", "return buffer[:2]", "it left a group that it returned in the buffer"),
        ("custom-reward-post-process", "return [1.0], [1.0]", "1 numbers for 4 samples"),
        ("custom-reward-post-process", "return [1.0] * 4", r"it must be a pair"),
        ("custom-convert-samples-to-train-data", "return {'tokens': []}", "response_lengths, rewards, raw_reward"),
        ("rollout-log", "return 1", "1; it must be True or False"),
    ],
)
def test_results_that_are_nearly_right(name: str, body: str, words: str, write: Write) -> None:
    hook = BY_NAME[name]
    with pytest.raises(HookError) as error:
        attempt(hook, write(define(hook, body)) + ":f")
    assert words in str(error.value)


def test_a_hooks_own_handlers_do_not_swallow_the_limit(write: Write) -> None:
    hook = BY_NAME["custom-rm"]
    source = """
        import time
        async def f(args, sample):
            while True:
                try:
                    time.sleep(10)
                except Exception:
                    pass
    """
    with pytest.raises(HookFailedError, match="without a break"):
        attempt(hook, write(source) + ":f", timeout=0.2)


def test_a_data_source_without_its_methods(write: Write) -> None:
    hook = BY_NAME["data-source"]
    source = "class f:\n    def __init__(self, args):\n        pass\n    def get_groups(self, n):\n        return []\n"
    with pytest.raises(HookError, match="a f without add_groups, state_dict, load_state_dict"):
        attempt(hook, write(source) + ":f")
    with pytest.raises(HookError, match="a class is needed"):
        HookFunction(hook, write("def f(args):\n    pass\n") + ":f", 5.0)


def test_all_that_is_wrong_is_said_at_once(write: Write) -> None:
    name = write("def f(args):\n    pass\n")
    config = Config(
        custom_generate_function_path=f"{name}:f",
        custom_rm_path="nowhere.f",
        rollout_sample_hook_path=(f"{name}:f", f"{name}:g"),
    )
    with pytest.raises(HookError) as error:
        HookSet(config)
    assert str(error.value).count("expected: ") == 4


def test_a_hook_is_loaded_once(write: Write) -> None:
    name = write("async def f(args, sample):\n    return 1.0\n")
    hooks = HookSet(Config(custom_rm_path=f"{name}:f"))
    assert hooks.at("custom-rm", f"{name}:f") is hooks.one("custom-rm")
    assert hooks.one("custom-rm-group") is None


def test_hooks_are_found_by_name_and_flag() -> None:
    assert hook_named("--custom-tis-function-path") is hook_named("custom-tis")
    with pytest.raises(KeyError, match="the nearest is custom-rm"):
        hook_named("custom-rn")
    assert {hook.field for hook in ROLLOUT_HOOKS} <= {flag.field for flag in REGISTRY.values() if flag.runs}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_names_every_hook(language: str) -> None:
    page = Path(__file__).parents[2] / "docs" / language / "get_started" / "customization.md"
    listed = dict(re.findall(r"^\| `(--[a-z-]+)` \| `([^`]*)`", page.read_text(encoding="utf-8"), flags=re.MULTILINE))
    by_flag = {hook.flag: hook for hook in HOOKS if hook.form != "class" and hook.name != "custom-rm-group"}
    assert listed.keys() == by_flag.keys()
    for flag, hook in by_flag.items():
        assert all(name in listed[flag] for name in (*hook.parameters, *hook.optional)[:4]), flag


def slime(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a user runs it: the command tries hooks in a child that it forks, which wants a process without threads."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    command = [sys.executable, "-m", "slime", "hooks", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_the_command_checks_and_lists(write: Write, tmp_path: Path) -> None:
    name = write("async def f(args, sample):\n    return 1.0\ndef g(args, samples):\n    return True\n")
    done = slime(tmp_path, "check", "--custom-rm-path", f"{name}:f", "--dynamic-sampling-filter-path", f"{name}:g")
    assert done.returncode == 0
    assert f"ok  --custom-rm-path {name}:f: sample 0 (group 0): response '2', label '2': reward 1.0" in done.stdout
    assert "slime hooks check: 2 of 2 hooks fit" in done.stdout
    agent = "examples.multi_turn_tools.agent:generate"
    for words, status, message in (
        (("check", "--custom-rm-path", f"{name}:g"), 1, "it must be `async def`"),
        (("check",), 2, "name at least one hook"),
        (("check", "--custom-generate-function-path", agent, "--response", "calc(1+1)"), 1, "one with --hf-checkpoint"),
        (("list", "custom-rn"), 2, "the nearest is custom-rm"),
        (("check", "--custom-rm-path", f"{name}:f", "--hook-timeout", "nan"), 2, "--hook-timeout"),
        (("check", "--custom-rm-path", f"{name}:f", "--n-samples-per-prompt", "0"), 2, "--n-samples-per-prompt"),
    ):
        done = slime(tmp_path, *words)
        assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    broken = write("def f(:\n")
    done = slime(tmp_path, "check", "--custom-rm-path", f"{broken}:f")
    assert f"{broken}.py:1 is not Python: invalid syntax" in done.stderr
    done = slime(tmp_path, "list", "--json")
    assert [one["name"] for one in json.loads(done.stdout)] == [hook.name for hook in HOOKS]


@pytest.mark.parametrize("how", ["sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
@pytest.mark.parametrize("where", ["module", "call"])
def test_a_hook_that_ends_the_process_does_not_pass(how: str, where: str, write: Write, tmp_path: Path) -> None:
    lines = f"async def f(args, sample):\n    {how}\n" if where == "call" else f"{how}\n"
    name = write(f"import os, sys\n{lines}")
    done = slime(tmp_path, "check", "--custom-rm-path", f"{name}:f")
    assert done.returncode == 1
    assert f"try --custom-rm-path {name}:f" in done.stderr
    said = done.stderr[done.stderr.index("\nno  ") :]
    assert ("SystemExit" if "sys" in how else "ended the process") in said
