"""A prompt data set: rows to prompts with token ids, checked while loading so that nothing breaks later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slime.data.chat_template import ChatTemplateError
from slime.data.columns import CheckLabel, Columns, Messages, PromptOptions, Tools, read_columns
from slime.data.rows import PromptFileError, Row, read_rows

Tokenize = Callable[[str], list[int]]
Render = Callable[[Messages, Tools | None], str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: text as the model sees it, its token ids, the gold answer.

    Lists of messages that nobody rendered stay as they are, without token ids.
    """

    text: str | Messages
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
        notes: what a person should read: lengths, prompts left out, prompts that look templated already.
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
    render: Render | None = None,
    check_label: CheckLabel | None = None,
    special_tokens: Sequence[str] = (),
) -> PromptDataset:
    """Read, template, tokenise and check a prompt file.

    Args:
        spec: path with an optional slice, see `slime.data.rows`.
        tokenize: text to ids, without adding special tokens.
        options: keys and limits.
        render: messages and tools to text, generation prompt included (``--apply-chat-template``). A string prompt
            becomes one user message. None: prompts are text already, or messages that stay as they are.
        check_label: raises ValueError for a gold answer that the grader cannot use; gets label and metadata.
        special_tokens: the tokenizer's; used to notice prompts that were templated before.

    Raises:
        PromptFileError: with ``file:line``, for a missing key (with the keys found and the nearest), a wrong type, a
            refused label, messages that the template refuses, or when no prompt is short enough.
    """
    prompts: list[Prompt] = []
    left_out: list[int] = []
    templated = 0
    for row in read_rows(spec):
        prompt = _prompt(row, tokenize, options, render, check_label)
        given = row.values[options.input_key]
        if render is not None and isinstance(given, str):
            templated += any(token in given for token in special_tokens)
        if options.rollout_max_prompt_len is not None and len(prompt.tokens) > options.rollout_max_prompt_len:
            left_out.append(len(prompt.tokens))
        else:
            prompts.append(prompt)
    notes = _length_notes(spec, prompts, left_out, options.rollout_max_prompt_len)
    if templated:
        notes.append(
            f"{spec}: {templated} prompts contain special tokens already and --apply-chat-template adds them again; "
            "if the file holds templated text, leave the flag out."
        )
    return PromptDataset(prompts, fingerprint(prompts), notes)


def _length_notes(spec: str, prompts: list[Prompt], left_out: list[int], limit: int | None) -> list[str]:
    """How long prompts are and how many were too long; refuses a file of which nothing is left."""
    notes = []
    if left_out:
        flag = f"--rollout-max-prompt-len {limit}"
        if not prompts:
            raise PromptFileError(
                f"{spec}: all {len(left_out)} prompts exceed {flag}; the shortest has {min(left_out)}."
            )
        notes.append(f"{spec}: left out {len(left_out)} of {len(left_out) + len(prompts)} prompts longer than {flag}.")
    lengths = sorted(len(prompt.tokens) for prompt in prompts if prompt.tokens)
    if lengths:
        notes.append(
            f"{spec}: half of the prompts have at most {lengths[(len(lengths) - 1) // 2]} tokens, 99 of 100 at most "
            f"{lengths[-(-99 * len(lengths) // 100) - 1]}, the longest {lengths[-1]}."
        )
    return notes


def _prompt(
    row: Row, tokenize: Tokenize, options: PromptOptions, render: Render | None, check_label: CheckLabel | None
) -> Prompt:
    columns = read_columns(row, options, render is not None, check_label)
    given = columns.prompt
    if render is not None:
        text = _rendered(row, columns, render)
    elif isinstance(given, str):
        text = given
    else:
        return Prompt(given, [], columns.label, columns.metadata)
    tokens = tokenize(text)
    if not tokens:
        raise PromptFileError(f"{row.place}: the prompt in {options.input_key!r} is empty; generation needs one token.")
    return Prompt(text, tokens, columns.label, columns.metadata)


def _rendered(row: Row, columns: Columns, render: Render) -> str:
    given = columns.prompt
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    try:
        return render(messages, columns.tools)
    except ChatTemplateError as error:
        raise PromptFileError(f"{row.place}: {error}", "--apply-chat-template") from error


def fingerprint(prompts: Sequence[Prompt]) -> str:
    """Hash of what the prompts are to training: token ids, or messages without any, and labels."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(
            json.dumps([prompt.tokens or prompt.text, prompt.label], ensure_ascii=False, default=str).encode()
        )
    return digest.hexdigest()
