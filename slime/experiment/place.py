"""Where a key of a data file stands, for messages."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import nearest_line


@dataclass(frozen=True)
class Place:
    """A data file: its name for messages and the zero-based line of each key."""

    name: str
    lines: dict[KeyPath, int]

    def at(self, path: KeyPath, message: str) -> str:
        """``file:line: key: message``."""
        key = ".".join(str(part) for part in path)
        return f"{self.name}:{nearest_line(self.lines, path) + 1}: {key}: {message}"
