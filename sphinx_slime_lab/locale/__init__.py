"""Words of the extension in Chinese and English, from one table, so that neither can lack a key."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import yaml

if TYPE_CHECKING:
    from sphinx.config import Config

Language = Literal["zh", "en"]
LANGUAGES: tuple[Language, ...] = ("zh", "en")


def language_of(config: Config) -> Language:
    """Return the language of a Sphinx project: Chinese for ``zh*``, English for anything else."""
    return "zh" if str(config.language).lower().startswith("zh") else "en"


@cache
def _table() -> dict[str, dict[str, str]]:
    text = files("sphinx_slime_lab.locale").joinpath("words.yaml").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = yaml.safe_load(text)
    for key, entry in table.items():
        if set(entry) != set(LANGUAGES):
            raise ValueError(f"words.yaml: {key} must have exactly zh and en")
    return table


def has_word(key: str) -> bool:
    """Tell whether the table has a text of this key."""
    return key in _table()


def word(language: Language, key: str, **slots: object) -> str:
    """Return one text with its ``{slots}`` filled. Raises ``KeyError`` for an unknown key."""
    return _table()[key][language].format(**slots)


def words(language: Language) -> dict[str, str]:
    """Return every text of one language, slots unfilled; the browser gets this."""
    return {key: entry[language] for key, entry in sorted(_table().items())}
