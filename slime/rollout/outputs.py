"""What a rollout function and an evaluation function return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slime.data.sample import Sample

Metrics = dict[str, float]


@dataclass(slots=True)
class RolloutFnTrainOutput:
    """One round to train on.

    Attributes:
        samples: graded groups, those of one prompt together.
        metrics: numbers about how they were made, by their full names (``rollout/...``).
        seconds: that the engines had for what was generated; None = those of the call.
    """

    samples: list[list[Sample]]
    metrics: Metrics = field(default_factory=dict)
    seconds: float | None = None


@dataclass(slots=True)
class RolloutFnEvalOutput:
    """Scores of held-out data.

    Attributes:
        data: by the name of the set: ``rewards`` and ``truncated``, one of each for every sample, and ``samples``,
            which may be absent. Samples of one prompt have the same ``group_index``; without samples, each is its own.
        metrics: further numbers, by their full names (``eval/...``).
    """

    data: dict[str, dict[str, Any]]
    metrics: Metrics = field(default_factory=dict)
