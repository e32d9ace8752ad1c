"""Dynamic sampling: which graded groups are worth training on (DAPO, arXiv 2503.14476, section 3.2)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slime.data.sample import Sample
from slime.rollout.hook_results import ResultError, shown

ZERO_STD = 1e-6


@dataclass(frozen=True, slots=True)
class DynamicFilterOutput:
    """A filter's decision.

    Attributes:
        keep: train on the group.
        reason: of a rejection; counted as ``rollout/dynamic_filter/drop_<reason>``.
        keep_when_insufficient: keep a rejected group all the same while the round would otherwise be short of groups.
    """

    keep: bool
    reason: str | None = None
    keep_when_insufficient: bool = False


def decision(result: Any) -> DynamicFilterOutput:
    """Check a filter's result; a bare bool is a decision without a reason."""
    if isinstance(result, bool):
        return DynamicFilterOutput(result)
    if not isinstance(result, DynamicFilterOutput):
        raise ResultError(f"{shown(result)}; it must be a DynamicFilterOutput, True or False.")
    return result


def filter_metrics(dropped: Mapping[str, int], graded: int) -> dict[str, float]:
    """``rollout/dynamic_filter/...``: what a filter dropped of `graded` groups, in all and by its reasons."""
    total = sum(dropped.values())
    return {
        "rollout/dynamic_filter/dropped_groups": float(total),
        "rollout/dynamic_filter/dropped_ratio": total / max(graded, 1),
        **{f"rollout/dynamic_filter/drop_{why}": float(number) for why, number in sorted(dropped.items())},
    }


def trajectory_rewards(args: Any, samples: list[Sample]) -> list[float]:
    """One reward for each trajectory of a group; pieces of one trajectory (equal rollout_id) count once."""
    rewards: dict[Any, float] = {}
    for position, sample in enumerate(samples):
        key = ("alone", position) if sample.rollout_id is None else ("id", sample.rollout_id)
        rewards[key] = sample.reward_value(args.reward_key)
    return list(rewards.values())


def check_reward_nonzero_std(args: Any, samples: list[Sample], **_: Any) -> DynamicFilterOutput:
    """Drop a group whose rewards are all equal: every advantage is 0, so it teaches nothing and dilutes the batch.

    The reason names the reward, e.g. ``zero_std_1.0`` for a prompt that every answer solved.
    """
    rewards = trajectory_rewards(args, samples)
    if len(rewards) > 1 and statistics.stdev(rewards) > ZERO_STD:
        return DynamicFilterOutput(True)
    return DynamicFilterOutput(False, f"zero_std_{round(rewards[0], 1)}")


def check_reward_nonzero_std_with_fallback(args: Any, samples: list[Sample], **_: Any) -> DynamicFilterOutput:
    """As `check_reward_nonzero_std`, but no group is dropped while the round would then be short of groups."""
    found = check_reward_nonzero_std(args, samples)
    return DynamicFilterOutput(found.keep, found.reason, keep_when_insufficient=not found.keep)
