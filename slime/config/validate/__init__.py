"""Rules across flags. Every ``validate_*`` returns problems and changes nothing."""

from __future__ import annotations

from slime.config.config import Config
from slime.config.errors import Problem


def validate(config: Config) -> list[Problem]:
    """All problems of a derived configuration, errors and warnings."""
    return []
