"""Where a response ends: every token that the tokenizer, the generation configuration or the chat template ends a turn
with, and what the flags add.

An engine knows the end tokens of the model's files. A chat template may end a turn with another one; a response that is
not stopped there goes on, writes the user's next question itself, and trains on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slime.rollout.errors import SetupError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class StopSet:
    """What ends a response.

    Attributes:
        token_ids: ascending.
        origins: where each id comes from, e.g. ``{2: "tokenizer, chat template"}``.
    """

    token_ids: tuple[int, ...]
    origins: dict[int, str]

    def note(self, tokenizer: PreTrainedTokenizerBase) -> str:
        """A line for a person."""
        names = [f"{tokenizer.convert_ids_to_tokens(i)} ({i}: {self.origins[i]})" for i in self.token_ids]
        return f"responses end at {', '.join(names) or 'their length limit alone: no end token is known'}"


def stop_set(
    tokenizer: PreTrainedTokenizerBase, folder: str, chat_template: bool, given: tuple[int, ...] = ()
) -> StopSet:
    """Collect the end tokens.

    Args:
        tokenizer: of the model.
        folder: ``--hf-checkpoint``; its ``generation_config.json`` is read when it is there.
        chat_template: whether prompts are rendered with the tokenizer's chat template.
        given: ``--rollout-stop-token-ids``.

    Raises:
        SetupError: an id that the tokenizer does not have, or a generation configuration that cannot be read.
    """
    found: dict[int, list[str]] = {}
    sources = [
        ("tokenizer", _ids(tokenizer.eos_token_id)),
        ("generation_config.json", _ids(_generation_config(folder).get("eos_token_id"))),
        ("chat template", end_of_turn(tokenizer) if chat_template else []),
        ("--rollout-stop-token-ids", list(given)),
    ]
    for origin, ids in sources:
        for token in ids:
            if not 0 <= token < len(tokenizer):
                raise SetupError(f"{origin}: end token {token} is not among the tokenizer's {len(tokenizer)} tokens.")
            found.setdefault(token, []).append(origin)
    return StopSet(tuple(sorted(found)), {token: ", ".join(origins) for token, origins in found.items()})


def end_of_turn(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The special token that the chat template puts after an assistant's message; none if it puts no special token."""
    mark = "~"
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": mark}]
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False))
    after = text.rpartition(mark)[2]
    ids = list(tokenizer(after, add_special_tokens=False)["input_ids"]) if after else []
    # `all_special_ids` holds the named ones alone; a token of the vocabulary may be special without a name.
    added = tokenizer.added_tokens_decoder.get(ids[0]) if ids else None
    return ids[:1] if added is not None and added.special else []


def _generation_config(folder: str) -> dict[str, Any]:
    path = Path(folder, "generation_config.json")
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SetupError(f"{path} is no JSON: {error}") from error
    return values if isinstance(values, dict) else {}


def _ids(value: int | list[int] | None) -> list[int]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
