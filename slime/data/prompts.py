"""A prompt data set: rows to prompts with token ids, checked while loading so that nothing breaks later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slime.data.columns import CheckLabel, PromptOptions, read_columns
from slime.data.rows import PromptFileError, Row, read_rows

Tokenize = Callable[[str], list[int]]
ChatTemplate = Callable[[list[dict[str, Any]]], str]


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
    columns = read_columns(row, options, template is not None, check_label)
    text = columns.prompt if isinstance(columns.prompt, str) else ""
    if template is not None:
        given = columns.prompt
        text = template([{"role": "user", "content": given}] if isinstance(given, str) else given)
    tokens = tokenize(text)
    if not tokens:
        raise PromptFileError(f"{row.place}: the prompt in {options.input_key!r} is empty; generation needs one token.")
    return Prompt(text, tokens, columns.label, columns.metadata)


def _fingerprint(prompts: list[Prompt]) -> str:
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps([prompt.tokens, prompt.label], ensure_ascii=False, default=str).encode())
    return digest.hexdigest()
