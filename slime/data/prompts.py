"""A prompt data set: rows to prompts with token ids, checked while loading so that nothing breaks later."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slime.data.rows import PromptFileError, Row, read_rows

Tokenize = Callable[[str], list[int]]
ChatTemplate = Callable[[list[dict[str, Any]]], str]
CheckLabel = Callable[[Any, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """How rows become prompts; names are the flags'.

    Attributes:
        input_key: column of the prompt: a string, or a list of ``{"role", "content"}`` messages.
        label_key: column of the gold answer; None = no labels.
        metadata_key: column of a mapping passed on to the grader; may be absent from a row.
        rollout_max_prompt_len: longer prompts (in tokens) are left out and counted; None = no limit.
    """

    input_key: str = "input"
    label_key: str | None = None
    metadata_key: str = "metadata"
    rollout_max_prompt_len: int | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: text as the model sees it, its token ids, the gold answer."""

    text: str
    tokens: list[int]
    label: Any
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PromptDataset:
    """Prompts in file order.

    Attributes:
        prompts: at least one.
        fingerprint: hash of the token ids and labels; a resumed run compares it, so that a cursor never points into
            another file.
        notes: what a person should read: prompts left out, prompts that look templated already.
    """

    prompts: list[Prompt]
    fingerprint: str
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.prompts)


def load_prompts(
    spec: str,
    tokenize: Tokenize,
    options: PromptOptions,
    chat_template: ChatTemplate | None = None,
    check_label: CheckLabel | None = None,
    special_tokens: Sequence[str] = (),
) -> PromptDataset:
    """Read, template, tokenise and check a prompt file.

    Args:
        spec: path with an optional slice, see `slime.data.rows`.
        tokenize: text to ids, without adding special tokens.
        options: keys and limits.
        chat_template: messages to text, generation prompt included (``--apply-chat-template``). A string prompt becomes
            one user message. None: prompts are text already.
        check_label: raises ValueError for a gold answer that the grader cannot use; gets label and metadata.
        special_tokens: the tokenizer's; used to notice prompts that were templated before.

    Raises:
        PromptFileError: with ``file:line``, for a missing key (with the keys found and the nearest), a wrong type, a
            refused label, or when no prompt is short enough.
    """
    prompts: list[Prompt] = []
    left_out: list[int] = []
    templated = 0
    for row in read_rows(spec):
        prompt = _prompt(row, tokenize, options, chat_template, check_label)
        given = row.values[options.input_key]
        if chat_template is not None and isinstance(given, str):
            templated += any(token in given for token in special_tokens)
        if options.rollout_max_prompt_len is not None and len(prompt.tokens) > options.rollout_max_prompt_len:
            left_out.append(len(prompt.tokens))
        else:
            prompts.append(prompt)
    notes = []
    if left_out:
        limit = f"--rollout-max-prompt-len {options.rollout_max_prompt_len}"
        if not prompts:
            raise PromptFileError(
                f"{spec}: all {len(left_out)} prompts exceed {limit}; the shortest has {min(left_out)}."
            )
        notes.append(f"{spec}: left out {len(left_out)} of {len(left_out) + len(prompts)} prompts longer than {limit}.")
    if templated:
        notes.append(
            f"{spec}: {templated} prompts contain special tokens already and --apply-chat-template adds them again; "
            "if the file holds templated text, leave the flag out."
        )
    return PromptDataset(prompts, _fingerprint(prompts), notes)


def _prompt(
    row: Row, tokenize: Tokenize, options: PromptOptions, template: ChatTemplate | None, check_label: CheckLabel | None
) -> Prompt:
    given = _value(row, options.input_key, "--input-key")
    text = _text(row, given, options.input_key, template)
    tokens = tokenize(text)
    if not tokens:
        raise PromptFileError(f"{row.place}: the prompt in {options.input_key!r} is empty; generation needs one token.")
    metadata = row.values.get(options.metadata_key) or {}
    if not isinstance(metadata, dict):
        raise PromptFileError(f"{row.place}: {options.metadata_key!r} is a {type(metadata).__name__}, not an object.")
    label = None if options.label_key is None else _value(row, options.label_key, "--label-key")
    if check_label is not None:
        try:
            check_label(label, metadata)
        except ValueError as error:
            raise PromptFileError(f"{row.place}: label: {error}") from error
    return Prompt(text, tokens, label, metadata)


def _value(row: Row, key: str, flag: str) -> Any:
    if key in row.values:
        return row.values[key]
    keys = list(row.values)
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.4)
    hint = f" The nearest is {near[0]!r}: {flag} {near[0]}." if near else ""
    raise PromptFileError(f"{row.place}: no key {key!r} ({flag}); the row has: {', '.join(keys) or 'no keys'}.{hint}")


def _text(row: Row, given: Any, key: str, template: ChatTemplate | None) -> str:
    if isinstance(given, str):
        return given if template is None else template([{"role": "user", "content": given}])
    if not isinstance(given, list) or not all(isinstance(message, dict) and "role" in message for message in given):
        raise PromptFileError(f"{row.place}: {key!r} is neither text nor a list of messages with a role.")
    if template is None:
        raise PromptFileError(f"{row.place}: {key!r} is a list of messages; add --apply-chat-template to render it.")
    return template(given)


def _fingerprint(prompts: list[Prompt]) -> str:
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps([prompt.tokens, prompt.label], ensure_ascii=False, default=str).encode())
    return digest.hexdigest()
