"""Errors of the experiment engine. Each message says what failed, why, and the nearest legal value.

``ExperimentError``
├── ``ExpressionError``  an expression that cannot be read or evaluated
├── ``CatalogError``     the shipped data (fields, rules, arguments, templates) contradict themselves
├── ``ChoiceError``      one edit that is not allowed (unknown field, wrong type, outside the limits)
└── ``InputError``       a file that holds no usable experiment
    └── ``LoadError``    a text or a link that is refused as a whole
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slime.experiment.texts import Text


class ExperimentError(Exception):
    """Base of everything this package raises on purpose."""


class ExpressionError(ExperimentError):
    """An expression that cannot be read or evaluated.

    ``code`` is one word shared with the JavaScript twin (``name``, ``type``, ``range``, ``zero``, ``arity``, ``empty``,
    ``syntax``), so that both engines can be compared without comparing prose.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CatalogError(ExperimentError):
    """The shipped data contradict themselves; the message starts with ``file:line``."""


class ChoiceError(ExperimentError):
    """One edit that is not allowed: ``field`` names the choice, ``reason`` says why in both languages."""

    def __init__(self, field: str, reason: Text, nearest: str | None = None) -> None:
        super().__init__(reason.en + (f" Did you mean {nearest}?" if nearest is not None else ""))
        self.field = field
        self.reason = reason
        self.nearest = nearest


class InputError(ExperimentError):
    """A file that holds no usable experiment; the message starts with ``file:line`` where a line is known.

    ``reason`` says why in both languages, ``line`` (zero-based) where in the file ``name``.
    """

    def __init__(self, reason: Text, name: str = "", line: int | None = None) -> None:
        place = name if line is None else f"{name}:{line + 1}"
        self._prefix = f"{place}: " if place else ""
        super().__init__(self._prefix + reason.en)
        self.reason = reason
        self.line = line

    def get(self, language: str) -> str:
        """The message in ``zh`` or ``en``."""
        return self._prefix + self.reason.get(language)


class LoadError(InputError):
    """A pasted text, an imported file or a link that is refused as a whole."""
