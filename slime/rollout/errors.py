"""What goes wrong before and while generating."""

from __future__ import annotations


class SetupError(ValueError):
    """The run cannot begin with what the flags name; the message says which and what would do."""


class RolloutError(RuntimeError):
    """A round cannot be completed; the message says what failed, with its numbers."""
