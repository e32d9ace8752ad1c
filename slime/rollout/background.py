"""What generates between the calls of a rollout function, and what the loop asks of it."""

from __future__ import annotations

from typing import Protocol

from slime.data.buffer import Group


class Producer(Protocol):
    """Generates in the background, from a rollout function's first call to the end of the run."""

    async def pause(self) -> None:
        """The weights are about to change: returns when no request is in flight, and none is sent from then on."""
        ...

    def resume(self, weight_version: int) -> None:
        """The engines hold this version now; go on."""
        ...

    def unfinished(self) -> list[Group]:
        """Copies of all groups that were taken from the data source and did not go to training, for a checkpoint."""
        ...

    async def close(self) -> None:
        """End what is in flight; groups that did not go to training are back in the data source afterwards."""
        ...


class Background:
    """Where a rollout function leaves its producer, so that the loop finds it.

    Attributes:
        producer: None while every round is generated on its own.
        weight_version: version of the weights that the engines hold.
    """

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.weight_version = 0
