"""The estimate of memory: what each part takes on one rank of each kind, phase by phase, in whole bytes.

The formulas are data (``recipes/experiment/memory.yaml``), so the build, the terminal and the browser give the same
numbers. It is an estimate for planning: allocators, CUDA contexts, graphs and libraries come on top, and none of it was
measured on a GPU. What can be checked without one is: parameters against Hugging Face's and Megatron's own models, and
the tiny recipe's weights, gradients, optimizer state and KV cache against a running trainer and server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from slime.experiment.errors import ExpressionError
from slime.experiment.expression import Value
from slime.experiment.memory_schema import MemoryPhase, MemoryTerm
from slime.experiment.schema import Derived
from slime.experiment.tables import State, Tables
from slime.experiment.texts import Text, both, fill

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
COUNT_UNITS = ("", " × 10³", " × 10⁶", " × 10⁹")


@dataclass(frozen=True)
class Cell:
    """One term on one rank: ``amount`` in bytes or parameters, and the same for readers."""

    amount: int
    text: str


@dataclass(frozen=True)
class Row:
    """One term; ``cells`` has one entry for each rank, None where the rank has no such part.

    ``formulas`` are those of the ranks that have it, each once.
    """

    id: str
    label: Text
    formulas: list[Text]
    link: str
    unit: Literal["bytes", "each", "count"]
    cells: list[Cell | None]


@dataclass(frozen=True)
class Phase:
    """A phase with its ranks as columns. ``totals`` add the rows in bytes; None where a sum would mean nothing."""

    id: str
    label: Text
    what: Text
    ranks: list[Text]
    rows: list[Row]
    totals: list[Cell] | None


def memory(tables: Tables, state: State) -> list[Phase]:
    """The estimate for ``state``, also for one with errors: it then says what was asked for."""
    names = tables.names(state)
    _extend(names, tables.memory.derived)
    return [_phase(phase, names) for phase in tables.memory.phases]


def size_text(amount: int) -> str:
    """``1.5 GB``: decimal units with one decimal place, halves rounded up; whole bytes below 1000."""
    return _scaled(amount, UNITS, " ")


def count_text(amount: int) -> str:
    """``30.1 × 10⁹``: a number of parameters; whole below 1000."""
    return _scaled(amount, COUNT_UNITS, "")


def _scaled(amount: int, units: tuple[str, ...], gap: str) -> str:
    scale, index = 1, 0
    while amount >= scale * 1000 and index + 1 < len(units):
        scale, index = scale * 1000, index + 1
    if index == 0:
        return f"{amount}{gap}{units[0]}"
    tenths = (amount * 10 + scale // 2) // scale
    return f"{tenths // 10}.{tenths % 10}{gap}{units[index]}"


def _extend(names: dict[str, Value], rows: Iterable[Derived]) -> None:
    for row in rows:
        names[row.name] = row.value.evaluate(names)


def _phase(phase: MemoryPhase, names: dict[str, Value]) -> Phase:
    ranks, columns = [], []
    for rank in phase.ranks:
        if not rank.when.test(names):
            continue
        own = dict(names)
        _extend(own, (*rank.values, *phase.derived))
        ranks.append(fill(rank.label, own))
        columns.append(own)
    rows = [_row(term, columns) for term in phase.terms]
    rows = [row for row in rows if any(cell is not None for cell in row.cells)]
    return Phase(phase.id, both(phase.label), both(phase.what), ranks, rows, _totals(phase, rows, len(ranks)))


def _row(term: MemoryTerm, columns: list[dict[str, Value]]) -> Row:
    cells: list[Cell | None] = []
    formulas: list[Text] = []
    for names in columns:
        if not term.when.test(names):
            cells.append(None)
            continue
        amount = term.bytes.evaluate(names)
        if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
            raise ExpressionError("type", f"the memory term {term.id} is {amount!r}; it needs a whole number")
        cells.append(Cell(amount, count_text(amount) if term.unit == "count" else size_text(amount)))
        formula = fill(term.formula, names)
        if formula not in formulas:
            formulas.append(formula)
    return Row(term.id, both(term.label), formulas, term.link, term.unit, cells)


def _totals(phase: MemoryPhase, rows: list[Row], ranks: int) -> list[Cell] | None:
    if not phase.total:
        return None
    sums = [
        sum(cell.amount for row in rows if row.unit == "bytes" and (cell := row.cells[index]) is not None)
        for index in range(ranks)
    ]
    return [Cell(amount, size_text(amount)) for amount in sums]
