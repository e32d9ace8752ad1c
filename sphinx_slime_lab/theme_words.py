"""Chinese words for a theme that ships none: furo's are added to the translations that templates ask."""

from __future__ import annotations

from gettext import NullTranslations
from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from sphinx_slime_lab.locale import language_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Words(NullTranslations):
    """Translations out of a mapping from the English text; templates may ask with spaces around it."""

    def __init__(self, table: dict[str, str]) -> None:
        super().__init__()
        self.table = table

    def gettext(self, message: str) -> str:
        """Return the translation, or the message itself."""
        return self.table.get(message.strip(), message)


def add_theme_words(app: Sphinx) -> None:
    """Let Sphinx's translations fall back to these, in Chinese projects that use furo."""
    if app.config.html_theme != "furo" or language_of(app.config) != "zh":
        return
    text = files("sphinx_slime_lab.locale").joinpath("furo_zh.yaml").read_text(encoding="utf-8")
    app.translator.add_fallback(Words(yaml.safe_load(text)))
