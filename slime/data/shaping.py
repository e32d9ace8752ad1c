"""From the rewards of samples to the scalars that train: compared inside the true group of each sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from slime.algorithms.groups import shape_rewards
from slime.data.sample import Sample


@dataclass(frozen=True, slots=True)
class Rewards:
    """One of each for every sample.

    Attributes:
        raw: rewards as graded, for metrics.
        shaped: what the estimator makes advantages of.
    """

    raw: Sequence[float]
    shaped: Sequence[float]


def shaped_rewards(
    groups: Sequence[Sequence[Sample]],
    rollout_ids: Sequence[int],
    estimator: str,
    normalize_std: bool,
    normalize: bool,
    reward_key: str | None,
) -> Rewards:
    """Shape the rewards of a round.

    A failed grading says nothing about its group: it counts in no statistics, and its sample gets 0. A sample with
    `remove_sample` counts like any other; only its tokens do not train. The k pieces of one trajectory weigh 1/k each.

    Args:
        groups: graded samples; those of one prompt share `group_index`, or else the list that they are in.
        rollout_ids: trajectory of each sample, in the groups' order.
        estimator, normalize_std, normalize: see `slime.algorithms.groups.shape_rewards`.
        reward_key: entry of rewards that are mappings.

    Raises:
        SampleError: a sample has no reward.
    """
    samples = [sample for group in groups for sample in group]
    keys: list[Hashable] = [
        ("list", slot) if sample.group_index is None else sample.group_index
        for slot, group in enumerate(groups)
        for sample in group
    ]
    rewards = [sample.reward_value(reward_key) for sample in samples]
    counted = [place for place, sample in enumerate(samples) if sample.verdict != "grader-error"]
    pieces = Counter(rollout_ids[place] for place in counted)
    found = shape_rewards(
        [rewards[place] for place in counted],
        [keys[place] for place in counted],
        estimator,
        normalize_std,
        normalize,
        [1 / pieces[rollout_ids[place]] for place in counted],
    )
    shaped = [0.0] * len(samples)
    for place, value in zip(counted, found, strict=True):
        shaped[place] = value
    return Rewards([_raw(sample, reward) for sample, reward in zip(samples, rewards, strict=True)], shaped)


def fill_rollout_ids(samples: Sequence[Sample]) -> list[int]:
    """The rollout id of each sample; missing ones become the smallest integers that no other sample uses."""
    used = {sample.rollout_id for sample in samples}
    ids: list[int] = []
    following = 0
    for sample in samples:
        if sample.rollout_id is not None:
            ids.append(sample.rollout_id)
            continue
        while following in used:
            following += 1
        used.add(following)
        ids.append(following)
    return ids


def _raw(sample: Sample, reward: float) -> float:
    """A hook that changes rewards keeps the grader's in ``metadata["raw_reward"]``."""
    kept = sample.metadata.get("raw_reward")
    return reward if kept is None else float(kept)
