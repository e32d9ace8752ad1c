"""The flags, one dataclass a concern."""
