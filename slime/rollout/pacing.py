"""How far generation may run ahead of training, so that no sample grows older than it may (--max-weight-staleness)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pacing:
    """Bounds the age of samples before they are generated: what could not be trained in time is not begun.

    Throwing away what has become too old would bound it as well, but the groups that grow old are those with long
    responses, so that training would see fewer of them. (AReaL, arXiv:2505.24298, "staleness-aware training", bounds by
    admission, too.)

    Attributes:
        batch: groups that a round trains, ``--rollout-batch-size``.
        max_staleness: updates that may lie between the oldest token of a group and its training; None = no limit.
    """

    batch: int
    max_staleness: int | None

    def too_old(self, version: int, weight_version: int) -> bool:
        """Whether a group with tokens of `version` may not be trained any more with weights of `weight_version`."""
        return self.max_staleness is not None and weight_version - version > self.max_staleness

    def in_time(self, versions: Iterable[int], weight_version: int) -> bool:
        """Whether every group can still be trained in time, one batch a version and the oldest first.

        Args:
            versions: the oldest weights behind each group.
            weight_version: the first batch is trained with these weights, the second with the next, and so on.
        """
        return not any(
            self.too_old(version, weight_version + place // self.batch)
            for place, version in enumerate(sorted(versions))
        )
