"""`Hook`: what one kind of hook is called with and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["async", "sync", "either", "class"]
Place = Literal["sample", "group", "round", "trainer", "start"]


@dataclass(frozen=True, slots=True)
class Hook:
    """One kind of hook.

    Attributes:
        name: short name, for `slime hooks`.
        field: the Config field of its flag, which holds the import path.
        parameters: what it is called with, by position.
        optional: what it is called with besides, by name, if it takes that name.
        form: "async" = must be ``async def``, "sync" = must not, "either", or a "class".
        returns: type of the result, as in a signature.
        place: what one call is about. Hooks of a "sample" or a "group" run beside generation and must not block it.
        purpose: what it is for, one sentence.
        example: source text of a small one, complete and right.
    """

    name: str
    field: str
    parameters: tuple[str, ...]
    form: Form
    returns: str
    place: Place
    purpose: str
    example: str
    optional: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The flag that names the hook's import path."""
        return "--" + self.field.replace("_", "-")

    def signature(self, function: str = "f") -> str:
        """For example ``async def f(args, sample) -> float | dict``."""
        words = {"async": "async def", "sync": "def", "either": "[async] def", "class": "class"}[self.form]
        inside = ", ".join(self.parameters)
        if self.optional:
            inside += "".join(f"[, {name}]" for name in self.optional)
        return f"{words} {function}({inside}) -> {self.returns}"
