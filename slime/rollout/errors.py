"""What goes wrong while generating."""

from __future__ import annotations


class RolloutError(RuntimeError):
    """A round cannot be completed; the message says what failed, with its numbers."""
