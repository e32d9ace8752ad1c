"""Supervised data: rows of conversations, each encoded once while loading, so that nothing breaks hours later."""

from __future__ import annotations

from slime.data.chat_template import ChatTemplate, ChatTemplateError
from slime.data.columns import PromptOptions, read_columns
from slime.data.conversation import ConversationError, encode_conversation
from slime.data.prompts import Prompt, PromptDataset, fingerprint
from slime.data.rows import PromptFileError, read_rows


def load_conversations(
    spec: str, template: ChatTemplate, options: PromptOptions, max_tokens: int | None = None
) -> PromptDataset:
    """Read and check a file of conversations. `slime.data.conversation.supervised_samples` makes samples of them.

    Args:
        spec: path with an optional slice, see `slime.data.rows`.
        template: the run's chat template.
        options: `input_key` is the column of the messages; labels are not read.
        max_tokens: conversations with a longer text are left out and counted (``--rollout-max-context-len``).

    Raises:
        PromptFileError: with ``file:line``, for a row without messages or one that cannot be encoded exactly; also when
            nothing is short enough.
    """
    prompts: list[Prompt] = []
    pieces, trained, tokens, left_out = 0, 0, 0, 0
    for row in read_rows(spec):
        columns = read_columns(row, options, apply_chat_template=True)
        if isinstance(columns.prompt, str):
            raise PromptFileError(
                f"{row.place}: {options.input_key!r} is text; supervised data are lists of messages with a role.",
                "--input-key",
            )
        try:
            encoded = encode_conversation(template, columns.prompt, columns.tools)
        except (ConversationError, ChatTemplateError) as error:
            raise PromptFileError(f"{row.place}: {error}", "--input-key") from error
        if max_tokens is not None and max(len(piece.tokens) for piece in encoded) > max_tokens:
            left_out += 1
            continue
        prompts.append(Prompt(columns.prompt, [], None, columns.metadata))
        pieces += len(encoded)
        trained += sum(sum(piece.loss_mask) for piece in encoded)
        tokens += sum(len(piece.tokens) for piece in encoded)
    notes = []
    if left_out:
        limit = f"--rollout-max-context-len {max_tokens}"
        if not prompts:
            raise PromptFileError(f"{spec}: all {left_out} conversations are longer than {limit}.")
        notes.append(f"{spec}: left out {left_out} of {left_out + len(prompts)} conversations longer than {limit}.")
    notes.append(f"{spec}: {len(prompts)} conversations, {pieces} samples; {trained} of {tokens} tokens train.")
    if pieces > len(prompts):
        notes.append(
            f"{spec}: the chat template rewrites earlier turns, so {len(prompts)} conversations make {pieces} samples."
        )
    return PromptDataset(prompts, fingerprint(prompts), notes)
