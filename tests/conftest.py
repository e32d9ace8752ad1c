"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# An example that is slow on a busy machine is not wrong.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
