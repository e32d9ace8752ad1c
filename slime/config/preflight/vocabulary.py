"""The tokenizer of a checkpoint, as its files state it: tokens, ids, special tokens. Nothing of it is run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slime.config.preflight.json_files import read_json, read_optional

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = "pip install tokenizers"


@dataclass(frozen=True)
class Vocabulary:
    """What tokenizer.json and tokenizer_config.json say.

    Attributes:
        folder: of the checkpoint.
        ids: token -> id, added tokens included.
        special: text of the special tokens.
        settings: tokenizer_config.json.
    """

    folder: Path
    ids: Mapping[str, int]
    special: frozenset[str]
    settings: Mapping[str, Any]

    @property
    def largest(self) -> int:
        """The largest id; -1 for an empty vocabulary."""
        return max(self.ids.values(), default=-1)

    def named(self, role: str) -> str | None:
        """The text of ``bos_token``, ``eos_token``, ...; None when the tokenizer has none."""
        value = self.settings.get(role)
        if isinstance(value, dict):
            value = value.get("content")
        return value if isinstance(value, str) and value else None

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer itself; None without the library `tokenizers`, or for a file that it cannot read."""
        if importlib.util.find_spec("tokenizers") is None:
            return None
        from tokenizers import Tokenizer

        try:
            return Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception as error:
            if type(error) is not Exception:  # the library raises bare Exceptions for files that it cannot read
                raise
            return None


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """Read the tokenizer's files; None without a readable tokenizer.json."""
    try:
        data = read_json(folder / "tokenizer.json")
    except ValueError:
        return None
    model, added = data.get("model"), data.get("added_tokens")
    ids: dict[str, int] = {}
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        ids |= {str(token): number for token, number in vocab.items() if isinstance(number, int)}
    elif isinstance(vocab, list):  # Unigram: pairs of token and score, the position is the id
        ids |= {str(pair[0]): number for number, pair in enumerate(vocab) if isinstance(pair, list) and pair}
    special: set[str] = set()
    for one in added if isinstance(added, list) else []:
        if isinstance(one, dict) and isinstance(one.get("content"), str) and isinstance(one.get("id"), int):
            ids[one["content"]] = one["id"]
            if one.get("special"):
                special.add(one["content"])
    return Vocabulary(folder, ids, frozenset(special), read_optional(folder / "tokenizer_config.json"))
