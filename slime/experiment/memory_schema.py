"""The shape of ``recipes/experiment/memory.yaml``: phases, their kinds of rank, and the terms of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from slime.experiment.expression import TRUE
from slime.experiment.facts_schema import FactModel, Words
from slime.experiment.schema import Derived, Expr, Name


class MemoryRank(FactModel):
    """One kind of rank of a phase, such as the GPUs of the first pipeline stage; ``values`` are its own names."""

    id: Name
    label: Words
    when: Expr = TRUE
    values: tuple[Derived, ...] = Field(default=(), strict=False)


class MemoryTerm(FactModel):
    """One part of the memory of a rank. ``each`` is a size that a later term multiplies, ``count`` no size at all."""

    id: Name
    label: Words
    formula: Words
    link: Annotated[str, StringConstraints(pattern=r"^https://[!-~]+$")]
    unit: Literal["bytes", "each", "count"] = "bytes"
    when: Expr = TRUE
    bytes: Expr


class MemoryPhase(FactModel):
    """What runs at one time in one place: its kinds of rank, and the terms of each."""

    id: Name
    label: Words
    what: Words
    total: bool = True
    ranks: tuple[MemoryRank, ...] = Field(strict=False)
    derived: tuple[Derived, ...] = Field(default=(), strict=False)
    terms: tuple[MemoryTerm, ...] = Field(strict=False)


class MemoryFile(FactModel):
    """``memory.yaml``."""

    derived: tuple[Derived, ...] = Field(strict=False)
    phases: tuple[MemoryPhase, ...] = Field(strict=False)
