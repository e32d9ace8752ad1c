"""Fixtures of the documentation tests."""

from site_build import build_fixture

__all__ = ["build_fixture"]
