"""Conversations of several turns: does what was rendered stay, and does each turn begin as it is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.template import ChatTemplate, TemplateProblem
from slime.config.rule import Finding, Rule

Messages = list[dict[str, Any]]

_QUESTION = {"role": "user", "content": "1 + 1 = ?"}
_THOUGHT = {"role": "assistant", "content": "<think>\none and one\n</think>\n\n2"}
_ANSWER = {"role": "assistant", "content": "2"}
_NEXT = {"role": "user", "content": "And 2 + 2?"}
_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 1}}}],
}
_RESULT = {"role": "tool", "name": "add", "content": "2"}

# Conversations of agents: a second question, thoughts before it, two results of tools one after the other.
PROBES: Mapping[str, Messages] = {
    "a second question": [_QUESTION, _ANSWER, _NEXT, _ANSWER],
    "thoughts before a second question": [_QUESTION, _THOUGHT, _NEXT, _ANSWER],
    "two results of tools": [_QUESTION, _CALL, _RESULT, _RESULT, _ANSWER],
}


def check_prefixes(inputs: Inputs) -> Iterator[Finding]:
    """A longer conversation begins with the text of the shorter one."""
    config, template = inputs.config, inputs.template
    if config.custom_generate_function_path is None or template is None:
        return
    arguments = dict(config.apply_chat_template_kwargs or {})
    for name, messages in PROBES.items():
        changed = changed_prefix(template, messages, arguments)
        if changed is None:
            continue
        before, after = changed
        yield Finding(
            f"with {name}, the chat template of {inputs.folder} rewrites what it rendered before: {before!r} becomes "
            f"{after!r}. Tokens of a conversation that is rendered again are then not those that were sampled",
            f"let {config.custom_generate_function_path} append tokens to the sample and never render the conversation "
            "again, or use a template for training that keeps its beginnings",
            ("--custom-generate-function-path", "--apply-chat-template-kwargs"),
        )
        return


def changed_prefix(template: ChatTemplate, messages: Messages, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """Where the rendering of a longer conversation departs from that of a shorter one, as two short texts.

    None when each is a beginning of the next; also when the template has no such conversations at all.
    """
    ends = [number for number, message in enumerate(messages, 1) if message["role"] == "assistant"]
    try:
        texts = [template.render(messages[:end], **arguments) for end in ends]
    except TemplateProblem:
        return None
    for short, long in itertools.pairwise(texts):
        at = next((place for place, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), None)
        if at is None and len(short) > len(long):
            at = len(long)
        # Some templates end a conversation with a line break that a further turn does not have.
        if at is not None and short[at:].strip():
            return short[max(at - 12, 0) : at + 12], long[max(at - 12, 0) : at + 12]
    return None


def check_turn_beginnings(inputs: Inputs) -> Iterator[Finding]:
    """A turn of the assistant begins as the template asks for it, so that the mask knows where it begins."""
    config, template = inputs.config, inputs.template
    if template is None or (config.loss_type != "sft_loss" and config.custom_generate_function_path is None):
        return
    arguments = dict(config.apply_chat_template_kwargs or {})
    for name, messages in PROBES.items():
        for end in (number for number, message in enumerate(messages) if message["role"] == "assistant"):
            try:
                asked = template.render(messages[:end], generate=True, **arguments)
                shown = template.render(messages[: end + 1], **arguments)
            except TemplateProblem:
                break
            if shown.startswith(asked):
                continue
            at = next((place for place, (a, b) in enumerate(zip(asked, shown, strict=False)) if a != b), len(shown))
            yield Finding(
                f"with {name}, the chat template of {inputs.folder} asks for the assistant's turn with "
                f"{asked[max(at - 12, 0) :]!r} and shows it with {shown[max(at - 12, 0) : at + 24]!r}: the mask of a "
                "turn "
                "has no beginning",
                "give a template that shows turns as it asks for them, or what makes it so in "
                "--apply-chat-template-kwargs (enable_thinking is the usual one)",
                ("--apply-chat-template-kwargs",),
                severity="error" if config.loss_type == "sft_loss" else "warning",
            )
            return


RULES = (
    Rule(
        id="stable-prefixes",
        row=48,
        source="prime-rl#1334, prime-rl#947, verl#6854, verl#7807, trl#6361, trl#6124",
        severity="warning",
        title=Text("多轮对话的模板不改写前文", "In several turns the template does not rewrite what came before"),
        why=Text(
            "有的模板会在下一轮删去先前的思考内容；重新渲染得到的 token 就不再是采样得到的 token。",
            "Some templates drop earlier thoughts when the next turn comes; tokens of a new rendering are then not "
            "those "
            "that were sampled.",
        ),
        hf=check_prefixes,
    ),
    Rule(
        id="turn-beginnings",
        row=49,
        source="slime#2263",
        title=Text("助手的一轮按模板要求的样子开头", "A turn of the assistant begins as the template asks for it"),
        why=Text(
            "掩码从生成提示之后的第一个 token 开始；模板展示一轮与请求一轮的写法不同，掩码就没有起点。"
            "这里不逐条渲染消息。",
            "The mask starts with the first token after the generation prompt; when a template shows a turn in "
            "another way "
            "than it asks for it, the mask has no start. Messages are never rendered one by one here.",
        ),
        hf=check_turn_beginnings,
    ),
)
