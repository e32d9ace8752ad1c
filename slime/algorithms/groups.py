"""Group-relative advantages of scalar rewards, in plain Python: a few thousand numbers a round need no tensor library.

Because nothing is imported here, the documentation's tour of one round shows numbers from this very code.

Shao et al., "DeepSeekMath", arXiv:2402.03300, section 4.1.2 (outcome supervision). Without the division by the standard
deviation: Liu et al., "Understanding R1-Zero-Like Training", arXiv:2503.20783.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

# Keeps a group whose rewards are all equal at advantage 0 instead of 0/0.
STD_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Mean and sample standard deviation (``ddof = 1``) of one group's rewards; a group of one has deviation 0."""

    mean: float
    std: float


def group_statistics(rewards: Sequence[float]) -> GroupStatistics:
    """The statistics of one group. Raises ``ValueError`` for an empty one."""
    if not rewards:
        raise ValueError("a group has no rewards; its mean is undefined.")
    mean = math.fsum(rewards) / len(rewards)
    squares = math.fsum((reward - mean) ** 2 for reward in rewards)
    return GroupStatistics(mean, math.sqrt(squares / max(len(rewards) - 1, 1)))


def group_advantages(rewards: Sequence[float], groups: Sequence[Hashable], normalize_std: bool = True) -> list[float]:
    """Subtract each group's mean and divide by its sample standard deviation.

    ``A_i = (r_i - mean_g) / (std_g + 1e-6)``. Statistics are those of the true group of each sample, so groups of
    different sizes, or samples in any order, come out right. A group of one has no spread to divide by: its advantage
    is 0.

    Args:
        rewards: one a sample.
        groups: one a sample; samples with the same entry are one group.
        normalize_std: False leaves out the division.

    Returns:
        One advantage a sample, in the order of `rewards`.

    Raises:
        ValueError: if `rewards` and `groups` differ in length.
    """
    if len(rewards) != len(groups):
        raise ValueError(f"there are {len(rewards)} rewards and {len(groups)} groups; each sample has one of both.")
    members: dict[Hashable, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        members.setdefault(group, []).append(reward)
    statistics = {group: group_statistics(own) for group, own in members.items()}
    advantages = []
    for reward, group in zip(rewards, groups, strict=True):
        centred = reward - statistics[group].mean
        advantages.append(centred / (statistics[group].std + STD_EPSILON) if normalize_std else centred)
    return advantages


def leave_one_out(rewards: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    """RLOO: subtract the mean reward of the *other* answers to the same prompt.

    ``A_i = r_i - sum_{j != i} r_j / (n - 1) = n / (n - 1) (r_i - mean)``: a baseline that does not depend on answer i,
    so the gradient stays unbiased. Ahmadian et al., "Back to Basics", arXiv:2402.14740, section 3.4 (RLOO). The answer
    of a group of one has nothing to be compared with: its advantage is 0.

    Args, returns, raises: as in `group_advantages`.
    """
    sizes = Counter(groups)
    centred = group_advantages(rewards, groups, normalize_std=False)
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
        return leave_one_out(rewards, groups)
    return group_advantages(rewards, groups, normalize_std and estimator != "reinforce_plus_plus_baseline")
