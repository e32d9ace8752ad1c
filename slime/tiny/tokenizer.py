"""A character tokenizer with the few tokens that a chat about arithmetic needs."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, END, USER, ASSISTANT = "<|pad|>", "<|unknown|>", "<|end|>", "<|user|>", "<|assistant|>"
SPECIAL_TOKENS = (PAD, UNKNOWN, END, USER, ASSISTANT)
BOX_OPEN, BOX_CLOSE = "\\boxed{", "}"
"""An answer is ``\\boxed{42}``: one token opens the box, one closes it, each digit is one token."""

VOCABULARY_SIZE = 128
"""Rows of the embedding. The tokenizer uses the first 102; the rest stay free, so that the size is a round number."""

# A system message is read like a user's; an assistant's message ends its turn.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}" + ASSISTANT + "{{ message['content'] }}" + END + "{% else %}"
    "" + USER + "{{ message['content'] }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)


def vocabulary() -> dict[str, int]:
    """Token -> id: the special tokens, the opening of a box, newline, then printable ASCII from space to tilde."""
    printable = {" ", *string.printable} - {"\n", "\t", "\r", "\v", "\f"}
    return {token: index for index, token in enumerate([*SPECIAL_TOKENS, BOX_OPEN, "\n", *sorted(printable)])}


def build_tokenizer(max_length: int) -> PreTrainedTokenizerFast:
    """The tokenizer, ready for ``save_pretrained``. Characters outside printable ASCII become ``<|unknown|>``.

    Args:
        max_length: tokens that the model can read (written to the configuration as ``model_max_length``).
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel(vocab=vocabulary(), unk_token=UNKNOWN))
    # One word for the opening of a box, one for every other character.
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"\\boxed\{|[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
