"""Typed access to the values of a ``config.json``; every refusal names the file and the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DTYPES = ("float32", "bfloat16", "float16")


class HFConfigError(ValueError):
    """`config.json` is missing, unreadable, or describes a model that cannot be built; the message says which."""


class Values:
    """The parsed object and the name that messages give it."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where

    def get(self, key: str, default: Any = None) -> Any:
        """The raw value."""
        return self.values.get(key, default)

    def text(self, key: str) -> str:
        """A string; anything else comes back as its repr, for a message."""
        value = self.values.get(key)
        return value if isinstance(value, str) else repr(value)

    def flag(self, key: str) -> bool:
        """True when the key is there and true."""
        return bool(self.values.get(key, False))

    def heads(self) -> int:
        """`num_attention_heads`."""
        return self.integer("num_attention_heads")

    def integer(
        self, key: str, default: int | None = None, minimum: int = 1, also: str | None = None, maximum: int = 2**40
    ) -> int:
        """An integer from `minimum` to `maximum`; `also` is another name of `key`. Raises HFConfigError otherwise."""
        value = self.values.get(key, self.values.get(also, default) if also else default)
        if type(value) is not int or value < minimum:
            raise HFConfigError(f"{self.where}: {key} is {value!r}; it must be an integer above {minimum - 1}.")
        if value > maximum:
            raise HFConfigError(f"{self.where}: {key} is {value}; at most {maximum} is built.")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0. Raises HFConfigError otherwise."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise HFConfigError(f"{self.where}: {key} is {value!r}; it must be a number above 0.")
        return float(value)

    def inner(self, key: str) -> Values:
        """The object under `key`, empty when there is none. Raises HFConfigError for another type."""
        value = self.values.get(key)
        if value is None:
            return Values({}, f"{self.where}: {key}")
        if not isinstance(value, Mapping):
            raise HFConfigError(f"{self.where}: {key} is a {type(value).__name__}; it must be an object.")
        return Values(value, f"{self.where}: {key}")

    def names(self, key: str, count: int, allowed: tuple[str, ...]) -> list[str]:
        """A list of `count` names, one a layer. Raises HFConfigError for another length or an unknown name."""
        value = self.values.get(key)
        if not isinstance(value, list) or len(value) < count:
            size = len(value) if isinstance(value, list) else 0
            raise HFConfigError(f"{self.where}: {key} names {size} layers; num_hidden_layers is {count}.")
        for index, name in enumerate(value):
            if name not in allowed:
                raise HFConfigError(
                    f"{self.where}: {key}[{index}] is {name!r}; it must be one of {', '.join(allowed)}."
                )
        return list(value[:count])
