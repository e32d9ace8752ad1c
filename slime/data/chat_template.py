"""The chat template of a run: messages to text, text to token ids. One object, so that every caller renders alike."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, Any]
Messages = Sequence[Message]
Tools = Sequence[dict[str, Any]]

MAX_TEMPLATE_BYTES = 1 << 20
STEP_LOSS_MASK = "step_loss_mask"
"""Key of a message of supervised data: any value but 1 keeps the turn out of the loss. Templates never see it."""


class ChatTemplateError(ValueError):
    """The template cannot render these messages; the message says which and what the template said."""


class ChatTemplate:
    """The tokenizer's template with the run's arguments for it.

    Attributes:
        tokenizer: renders and encodes.
        stop_token_ids: ids that end the model's turn.
        closing: ids by the text of their token: those that end a turn, and every special token, with which a template
            may show its end.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        kwargs: Mapping[str, Any] | None = None,
        stop_token_ids: Iterable[int] = (),
    ) -> None:
        """
        Args:
            tokenizer: of the checkpoint; `use_template` gives it another template.
            kwargs: arguments that the template gets (``--apply-chat-template-kwargs``).
            stop_token_ids: besides the tokenizer's end of sequence.

        Raises:
            ChatTemplateError: there is no template, or an argument has a name that the tokenizer uses itself.
        """
        self.tokenizer = tokenizer
        self.stop_token_ids = frozenset(stop_token_ids) | (
            frozenset() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
        )
        ids = sorted(self.stop_token_ids | set(tokenizer.all_special_ids))
        self.closing = dict(zip(map(str, tokenizer.convert_ids_to_tokens(ids)), ids, strict=True))
        self._taken = set(inspect.signature(tokenizer.apply_chat_template).parameters) - {"kwargs"}
        self._kwargs = dict(kwargs or {})
        self._check_kwargs(self._kwargs)
        if not tokenizer.chat_template:
            raise ChatTemplateError(
                f"the tokenizer in {tokenizer.name_or_path} has no chat template; add chat_template.jinja to the "
                "folder, or name a template with --chat-template-path."
            )

    def render(
        self,
        messages: Messages,
        tools: Tools | None = None,
        add_generation_prompt: bool = False,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Messages to text.

        Args:
            messages: each with a role.
            tools: definitions (JSON schema) that the template shows to the model.
            add_generation_prompt: also open the assistant's next turn.
            kwargs: arguments of this call, above those of the run (``Sample.apply_chat_template_kwargs``).

        Raises:
            ChatTemplateError: the template refuses the messages, or fails on them.
        """
        own = dict(kwargs or {})
        self._check_kwargs(own)
        shown = [{key: value for key, value in message.items() if key != STEP_LOSS_MASK} for message in messages]
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    shown,
                    tools=list(tools) if tools else None,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    **{**self._kwargs, **own},
                )
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise ChatTemplateError(f"the chat template cannot render messages of {roles}: {error}.") from error

    def tokenize(self, text: str) -> list[int]:
        """Ids of `text`. Adds no special tokens: the template wrote those that belong there."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _check_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        for name in kwargs:
            if name in self._taken:
                raise ChatTemplateError(
                    f"--apply-chat-template-kwargs: {name!r} is an argument of the tokenizer, not of the template."
                )


def use_template(tokenizer: PreTrainedTokenizerBase, path: str) -> None:
    """Give the tokenizer the template of a file (``--chat-template-path``), so that whoever renders with it agrees.

    Raises:
        ChatTemplateError: it cannot be read, or is empty.
    """
    try:
        data = Path(path).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise ChatTemplateError(f"--chat-template-path {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ChatTemplateError(f"--chat-template-path {path} is not UTF-8 at byte {error.start}.") from error
    if len(data) > MAX_TEMPLATE_BYTES:
        raise ChatTemplateError(f"--chat-template-path {path} has {len(data)} bytes; at most {MAX_TEMPLATE_BYTES}.")
    if not text.strip():
        raise ChatTemplateError(f"--chat-template-path {path} is empty.")
    tokenizer.chat_template = text
