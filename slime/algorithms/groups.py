"""Group-relative advantages of scalar rewards, in plain Python: a few thousand numbers a round need no tensor library.

Because nothing is imported here, the documentation's tour of one round shows numbers from this very code.

Shao et al., "DeepSeekMath", arXiv:2402.03300, section 4.1.2 (outcome supervision). Without the division by the standard
deviation: Liu et al., "Understanding R1-Zero-Like Training", arXiv:2503.20783.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

# Keeps a group whose rewards are all equal at advantage 0 instead of 0/0.
STD_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Mean and sample standard deviation (``ddof = 1``) of one group's rewards; a group of one has deviation 0."""

    mean: float
    std: float


def group_statistics(rewards: Sequence[float], weights: Sequence[float] | None = None) -> GroupStatistics:
    """The statistics of one group.

    Args:
        rewards: one a sample.
        weights: one a sample; None = 1 each. A trajectory that came in k pieces counts once when each piece has 1/k.

    Raises:
        ValueError: there are no rewards.
    """
    if not rewards:
        raise ValueError("a group has no rewards; its mean is undefined.")
    own = [1.0] * len(rewards) if weights is None else weights
    size = math.fsum(own)
    mean = math.fsum(weight * reward for weight, reward in zip(own, rewards, strict=True)) / size
    squares = math.fsum(weight * (reward - mean) ** 2 for weight, reward in zip(own, rewards, strict=True))
    return GroupStatistics(mean, math.sqrt(squares / max(size - 1, 1)))


def group_advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    normalize_std: bool = True,
    weights: Sequence[float] | None = None,
) -> list[float]:
    """Subtract each group's mean and divide by its sample standard deviation.

    ``A_i = (r_i - mean_g) / (std_g + 1e-6)``. Statistics are those of the true group of each sample, so groups of
    different sizes, or samples in any order, come out right. A group of one has no spread to divide by: its advantage
    is 0.

    Args:
        rewards: one a sample.
        groups: one a sample; samples with the same entry are one group.
        normalize_std: False leaves out the division.
        weights: see `group_statistics`.

    Returns:
        One advantage a sample, in the order of `rewards`.

    Raises:
        ValueError: if `rewards` and `groups` differ in length.
    """
    if len(rewards) != len(groups):
        raise ValueError(f"there are {len(rewards)} rewards and {len(groups)} groups; each sample has one of both.")
    own = [1.0] * len(rewards) if weights is None else weights
    members: dict[Hashable, tuple[list[float], list[float]]] = {}
    for reward, group, weight in zip(rewards, groups, own, strict=True):
        kept = members.setdefault(group, ([], []))
        kept[0].append(reward)
        kept[1].append(weight)
    statistics = {group: group_statistics(*kept) for group, kept in members.items()}
    advantages = []
    for reward, group in zip(rewards, groups, strict=True):
        centred = reward - statistics[group].mean
        advantages.append(centred / (statistics[group].std + STD_EPSILON) if normalize_std else centred)
    return advantages


def leave_one_out(
    rewards: Sequence[float], groups: Sequence[Hashable], weights: Sequence[float] | None = None
) -> list[float]:
    """RLOO: subtract the mean reward of the *other* answers to the same prompt.

    ``A_i = r_i - sum_{j != i} r_j / (n - 1) = n / (n - 1) (r_i - mean)``: a baseline that does not depend on answer i,
    so the gradient stays unbiased. Ahmadian et al., "Back to Basics", arXiv:2402.14740, section 3.4 (RLOO). The answer
    of a group of one has nothing to be compared with: its advantage is 0.

    Args, returns, raises: as in `group_advantages`.
    """
    sizes: defaultdict[Hashable, float] = defaultdict(float)
    for group, weight in zip(groups, [1.0] * len(groups) if weights is None else weights, strict=True):
        sizes[group] += weight
    centred = group_advantages(rewards, groups, normalize_std=False, weights=weights)
    return [
        value * sizes[group] / (sizes[group] - 1) if sizes[group] > 1 else 0.0
        for value, group in zip(centred, groups, strict=True)
    ]


def shape_rewards(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    estimator: str,
    normalize_std: bool = True,
    normalize: bool = True,
    weights: Sequence[float] | None = None,
) -> list[float]:
    """The scalar of each sequence from which its estimator makes advantages of tokens.

    grpo, gspo and cispo: `group_advantages`; reinforce_plus_plus_baseline: the same without the division; rloo:
    `leave_one_out`; reinforce_plus_plus and ppo: the rewards as they are.

    Args:
        estimator: --advantage-estimator.
        normalize_std: False with --disable-grpo-std-normalization.
        normalize: False with --disable-rewards-normalization: the rewards as they are, for every estimator.
        Others, returns, raises: as in `group_advantages`.
    """
    if not normalize or estimator in ("reinforce_plus_plus", "ppo"):
        return [float(reward) for reward in rewards]
    if estimator == "rloo":
        return leave_one_out(rewards, groups, weights)
    return group_advantages(rewards, groups, normalize_std and estimator != "reinforce_plus_plus_baseline", weights)
