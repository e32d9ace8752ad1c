"""The columns of one row: prompt, reference answer, metadata. Shared by the loader and by `slime check`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slime.data.rows import PromptFileError, Row

CheckLabel = Callable[[Any, dict[str, Any]], None]
Messages = list[dict[str, Any]]
Tools = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """How rows become prompts; names are the flags'.

    Attributes:
        input_key: column of the prompt: a string, or a list of ``{"role", "content"}`` messages.
        label_key: column of the gold answer; None = no labels.
        metadata_key: column of a mapping passed on to the grader; may be absent from a row.
        rollout_max_prompt_len: longer prompts (in tokens) are left out and counted; None = no limit.
        tool_key: column of the definitions of tools, a list or JSON text of one; may be absent from a row.
        keep_messages: leave lists of messages as they are for a generation function of the user's, and do not measure
            them.
    """

    input_key: str = "input"
    label_key: str | None = None
    metadata_key: str = "metadata"
    rollout_max_prompt_len: int | None = None
    tool_key: str = "tools"
    keep_messages: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """What one row gives, before anything is rendered or tokenised. Tools also stand in ``metadata["tools"]``."""

    prompt: str | Messages
    label: Any
    metadata: dict[str, Any]
    tools: Tools | None = None


def read_columns(
    row: Row, options: PromptOptions, apply_chat_template: bool, check_label: CheckLabel | None = None
) -> Columns:
    """Take prompt, label, metadata and tools out of a row.

    Args:
        apply_chat_template: whether messages can be rendered to text.
        check_label: raises ValueError for a gold answer that the grader cannot use; gets label and metadata.

    Raises:
        PromptFileError: with ``file:line``, for a missing key (with the keys found and the nearest), a wrong type, an
            empty prompt, images or other media, or a label that is missing or refused.
    """
    prompt = _prompt(row, options.input_key, apply_chat_template or options.keep_messages)
    metadata = row.values.get(options.metadata_key) or {}
    if not isinstance(metadata, dict):
        raise PromptFileError(f"{row.place}: {options.metadata_key!r} is a {type(metadata).__name__}, not an object.")
    tools = _tools(row, options.tool_key)
    if tools is not None:
        metadata = {**metadata, "tools": tools}
    label = None
    if options.label_key is not None:
        label = _value(row, options.label_key, "--label-key")
        if label is None or (isinstance(label, str) and not label.strip()):
            raise PromptFileError(
                f"{row.place}: {options.label_key!r} is {label!r}: there is no reference answer.", "--label-key"
            )
    if check_label is not None:
        try:
            check_label(label, metadata)
        except ValueError as error:
            raise PromptFileError(f"{row.place}: label: {error}", "--label-key") from error
    return Columns(prompt, label, metadata, tools)


def _value(row: Row, key: str, flag: str) -> Any:
    if key in row.values:
        return row.values[key]
    keys = [str(one) for one in row.values]
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.4)
    hint = f" The nearest is {near[0]!r}: {flag} {near[0]}." if near else ""
    raise PromptFileError(
        f"{row.place}: no key {key!r} ({flag}); the row has: {', '.join(keys) or 'no keys'}.{hint}", flag
    )


def _prompt(row: Row, key: str, apply_chat_template: bool) -> str | Messages:
    given = _value(row, key, "--input-key")
    if isinstance(given, str):
        if not given.strip():
            raise PromptFileError(f"{row.place}: the prompt in {key!r} is empty; generation needs one token.")
        _encodable(row, key, given)
        return given
    if not isinstance(given, list) or not given or not all(_is_message(message) for message in given):
        raise PromptFileError(f"{row.place}: {key!r} is neither text nor a list of messages with a role.")
    if not apply_chat_template:
        raise PromptFileError(
            f"{row.place}: {key!r} is a list of messages; add --apply-chat-template to render it.",
            "--apply-chat-template",
        )
    for number, message in enumerate(given):
        _check_content(row, key, number, message.get("content"))
    return given


def _check_content(row: Row, key: str, number: int, content: Any) -> None:
    """Text, nothing, or a list of parts that are text."""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind is not None and kind != "text":
            raise PromptFileError(
                f"{row.place}: message {number} in {key!r} has a part of the type {kind!r}; "
                "images, audio and video are not run yet, text is."
            )
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            _encodable(row, key, text)
        elif text is not None:
            raise PromptFileError(
                f"{row.place}: message {number} in {key!r} has a {type(text).__name__} as its content."
            )


def _tools(row: Row, key: str) -> Tools | None:
    given = row.values.get(key)
    if isinstance(given, str) and given.strip():
        try:
            given = json.loads(given)
        except ValueError as error:
            raise PromptFileError(f"{row.place}: {key!r} (--tool-key) is text that is no JSON: {error}.") from error
    if given is None or given in ("", []):
        return None
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise PromptFileError(
            f"{row.place}: {key!r} (--tool-key) is no list of objects; each tool is an object with its JSON schema."
        )
    return given


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _encodable(row: Row, key: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptFileError(
            f"{row.place}: {key!r} holds half of a surrogate pair at character {error.start}, which is no text."
        ) from error
