"""Functions of the user's own: imported, checked and tried on one sample, in a process that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from slime.config.config import REGISTRY, Config
from slime.config.flags import Text
from slime.config.groups.algorithm import names_own_function
from slime.config.preflight.grading import gold_response, graders_of
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.template import TemplateProblem
from slime.config.rule import Finding, Rule

# Importing torch and a tokenizer takes some of it, each call of a hook may take the rest.
SECONDS = 180.0
_SHOW = "`slime hooks list` shows every signature, `slime hooks check` tries a hook alone"
_GRADERS = ("custom-rm", "custom-rm-group", "custom-reward-post-process")
_FILTERS = ("dynamic-filter", "buffer-filter", "rollout-sample-filter")


@dataclass(frozen=True)
class HookTrouble:
    """What is wrong with one hook.

    Attributes:
        hook: the kind, e.g. ``custom-rm``.
        flag: that named it.
        stage: "load" (import, signature), "call" (it raised or hung), "result" (what it returned), or "process" (it
            took the process down, or did not come back).
        error: the message, with the signature that is expected.
    """

    hook: str
    flag: str
    stage: str
    error: str


def has_hooks(config: Config) -> bool:
    """Whether a flag names a function of the user's own."""
    for flag in REGISTRY.values():
        value = getattr(config, flag.field)
        if not flag.field.endswith("_path") or value is None or value == flag.default:
            continue
        if not isinstance(value, str) or not names_own_function(flag, value):
            return True
    return False


def try_hooks(inputs: Inputs) -> list[HookTrouble]:
    """Run every hook once in a process of its own and collect what is wrong."""
    if not has_hooks(inputs.config):
        return []
    process = subprocess.Popen(
        [sys.executable, "-m", "slime.rollout.hook_probe"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(json.dumps(_request(inputs)), timeout=SECONDS)
        ended = ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with what the hook started
        out, err = process.communicate()
        ended = f"had not come back after {SECONDS:g} s: what does it do when it is imported?"
    troubles, last, done = _read(out)
    if not done and not ended:
        last_words = (err.strip().splitlines() or ["it said nothing"])[-1]
        ended = f"ended the process that tried it, with exit status {process.returncode}: {last_words}"
    if ended:
        flag, path = last.get("flag", "--custom-*-path"), last.get("path", "")
        troubles.append(HookTrouble(last.get("hook", ""), flag, "process", f"{flag} {path} {ended}"))
    return troubles


def _read(out: str) -> tuple[list[HookTrouble], dict[str, str], bool]:
    """What does not fit, the last hook that was begun, and whether all were tried."""
    troubles: list[HookTrouble] = []
    last: dict[str, str] = {}
    done = False
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # a hook that prints
        if not isinstance(said, dict) or "hook" not in said:
            done = done or said == {"done": True}
            continue
        if "error" in said:
            troubles.append(HookTrouble(said["hook"], said["flag"], said["stage"], said["error"]))
        last = said
    return troubles, last, done


def _request(inputs: Inputs) -> dict[str, Any]:
    """The configuration, and a sample of the first row: its prompt, its label, the label as a response."""
    prompt, label, response = "1 + 1 =", "2", "2"
    file = inputs.prompts[0]
    if file.columns:
        first = file.columns[0]
        label = "" if first.label is None else str(first.label)
        grader = (graders_of(file) or ["math"])[0]
        response = gold_response(grader, label, first.metadata) or label or response
        try:
            prompt = file.rendered(first)
        except TemplateProblem:
            prompt = str(first.prompt)
    values = {flag.field: getattr(inputs.config, flag.field) for flag in REGISTRY.values()}
    return {"config": values, "prompt": prompt or "1 + 1 =", "label": label, "response": response}


def check_loading(inputs: Inputs) -> Iterator[Finding]:
    """Every hook can be imported, has the right signature, and comes back from one call."""
    for one in inputs.hook_troubles:
        if one.stage in ("load", "process"):
            yield Finding(one.error, _SHOW, (one.flag,))
        elif one.stage == "call":
            # It may need a service that runs later, so this alone stops nothing.
            yield Finding(one.error, _SHOW, (one.flag,), severity="warning")


def check_samples(inputs: Inputs) -> Iterator[Finding]:
    """What a hook makes of a sample keeps the sample's contract."""
    yield from _results(inputs, lambda hook: hook not in (*_GRADERS, *_FILTERS))


def check_rewards(inputs: Inputs) -> Iterator[Finding]:
    """A reward function of the user's gives numbers, or mappings with the key that trains."""
    yield from _results(inputs, lambda hook: hook in _GRADERS)


def check_filters(inputs: Inputs) -> Iterator[Finding]:
    """A filter takes groups of every shape, and decides."""
    yield from _results(inputs, lambda hook: hook in _FILTERS)


def _results(inputs: Inputs, belongs: Callable[[str], bool]) -> Iterator[Finding]:
    for one in inputs.hook_troubles:
        if one.stage == "result" and belongs(one.hook):
            yield Finding(one.error, _SHOW, (one.flag,))


RULES = (
    Rule(
        id="sample-contract",
        row=50,
        source="slime#1563, slime#1476, slime#1477, slime#514, slime#1418",
        title=Text("自定义生成函数返回完好的样本", "A generation of your own returns whole samples"),
        why=Text(
            "掩码、token 和对数概率的长度不一致时，损失会算到错误的 token 上。",
            "When mask, tokens and log-probabilities differ in length, the loss falls on the wrong tokens.",
        ),
        data=check_samples,
    ),
    Rule(
        id="reward-values",
        row=53,
        source="slime#1299, slime#1470, slime#2157",
        title=Text("自定义评分函数返回能用的奖励", "A reward function of your own returns rewards that can be used"),
        why=Text(
            "返回字典而没有 --reward-key，或者返回 None，要到汇总时才以类型错误的形式出现。",
            "A mapping without --reward-key, or None, shows only when rewards are summed, as a type error.",
        ),
        data=check_rewards,
    ),
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
        data=check_loading,
    ),
    Rule(
        id="filters",
        row=55,
        source="slime#2374, slime#2381",
        title=Text("过滤函数接受各种形状的组", "A filter takes groups of every shape"),
        why=Text(
            "一条轨迹分成几段时，组里的样本会多出来；只按固定个数写的过滤函数会出错。",
            "When a trajectory comes in pieces a group has more samples; a filter that counts on a fixed number fails.",
        ),
        data=check_filters,
    ),
)
