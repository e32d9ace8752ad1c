"""Verdicts for a group of responses, through the worker pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slime.data.sample import Sample
from slime.rewards.pool import GradeRequest
from slime.rewards.verdict import Verdict
from slime.rollout.errors import RolloutError


class Grader(Protocol):
    """What grades: `slime.rewards.pool.GraderPool`."""

    async def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """One verdict for each request, in order."""
        ...


async def grade_samples(grader: Grader, rm_type: str, samples: list[Sample]) -> None:
    """Set reward and verdict of each sample. A row's ``metadata.rm_type`` goes before `rm_type`.

    A sample whose grader failed is kept out of the loss: its reward says nothing about the response.
    """
    requests = [
        GradeRequest(
            str(sample.metadata.get("rm_type", rm_type)),
            sample.response,
            sample.label,
            sample.metadata.get("answer_type"),
        )
        for sample in samples
    ]
    for sample, verdict in zip(samples, await grader.grade(requests), strict=True):
        sample.reward = verdict.score
        sample.verdict = verdict.kind
        sample.verdict_reason = verdict.reason
        if verdict.kind == "grader-error":
            sample.remove_sample = True


def check_grader_errors(samples: list[Sample], limit: float) -> None:
    """Refuse a round in which the grader failed too often; such a run would train on noise without a sign of it.

    Raises:
        RolloutError: if more than the share `limit` of the samples has the verdict "grader-error".
    """
    failed = [sample for sample in samples if sample.verdict == "grader-error"]
    if len(failed) > limit * len(samples):
        raise RolloutError(
            f"the grader failed on {len(failed)} of {len(samples)} samples (limit {limit:.0%}); "
            f"the first, {failed[0].name()}: {failed[0].verdict_reason}"
        )
