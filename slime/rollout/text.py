"""Token ids to the text that graders read, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class TextTools:
    """What generation needs of a tokenizer.

    Attributes:
        encode: text to ids; adds no special tokens.
        decode: ids to text.
        stop_token_ids: ids that end a response. They end the turn and are no part of what was said, so `response_text`
            leaves one at the end out.
        tokenizer: the tokenizer itself, for hooks.
    """

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    stop_token_ids: tuple[int, ...] = ()
    tokenizer: Any = None

    def response_text(self, ids: Sequence[int]) -> str:
        """Text of response ids, without the token that ended it."""
        ended = bool(ids) and ids[-1] in self.stop_token_ids
        return self.decode(list(ids[:-1] if ended else ids))


def text_tools(
    tokenizer: PreTrainedTokenizerBase, skip_special_tokens: bool, stop_token_ids: tuple[int, ...]
) -> TextTools:
    """Those of a Hugging Face tokenizer; `skip_special_tokens` is ``--rollout-skip-special-tokens``."""

    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(ids: list[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    return TextTools(encode, decode, stop_token_ids, tokenizer)
