"""Formulas of the guides, as functions of plain numbers. The role ``slime:calc`` and the figures compute with them.

So a number that a page derives is never typed: the page names the formula and its arguments, and both languages show
what Python found while the site was built.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

from slime.algorithms.groups import STD_EPSILON, group_statistics

WEIGHTS, GRADIENTS, MASTER, MOMENTS = 2, 4, 4, 8
"""Bytes per parameter in mixed precision with Adam: Rajbhandari et al., arXiv:1910.02054, section 3.1, with FP32
gradients in place of that paper's FP16 ones."""


def rewards_of(right: int, wrong: int) -> list[float]:
    """Rewards of a group with so many right (1) and wrong (0) answers."""
    return [1.0] * right + [0.0] * wrong


def group_std(right: int, wrong: int) -> float:
    """Sample standard deviation of a group of ones and zeros."""
    return group_statistics(rewards_of(right, wrong)).std


def advantage(right: int, wrong: int, reward: int = 1) -> float:
    """GRPO's advantage of a right (``reward`` 1) or wrong (0) answer; arXiv:2402.03300, section 4.1.2."""
    found = group_statistics(rewards_of(right, wrong))
    return (reward - found.mean) / (found.std + STD_EPSILON)


def mixed_probability(rate: float, samples: int) -> float:
    """Chance that a group has right and wrong answers, each right with probability ``rate``: 1 - p^n - (1 - p)^n."""
    return 1 - rate**samples - (1 - rate) ** samples


def clipped(ratio: float, sign: int, low: float, high: float) -> float:
    """PPO's clipped objective of one token for an advantage of +1 or -1; arXiv:1707.06347, equation 7."""
    limited = min(max(ratio, 1 - low), 1 + high)
    return min(ratio * sign, limited * sign)


def truncated(ratio: float, low: float = 0.0, high: float = 2.0) -> float:
    """TIS: the ratio cut to its limits."""
    return min(max(ratio, low), high)


def icepop(ratio: float, low: float = 0.5, high: float = 2.0) -> float:
    """IcePop: the ratio inside its limits, 0 outside."""
    return ratio if low <= ratio <= high else 0.0


def bubble(stages: int, micro_batches: int) -> float:
    """Idle share of a pipeline without interleaving: (p - 1) / (m + p - 1); arXiv:2104.04473, section 2.2."""
    return (stages - 1) / (micro_batches + stages - 1)


def micro_batches_for(stages: int, share: float) -> int:
    """Fewest micro-batches whose bubble is at most ``share``."""
    return max(1, math.ceil((stages - 1) * (1 - share) / share - 1e-9))


def zero_bytes(stage: int, ranks: int) -> float:
    """Bytes a parameter on each of ``ranks`` for ZeRO 0 to 3; arXiv:1910.02054, figure 1, with FP32 gradients."""
    parts = (MASTER + MOMENTS, GRADIENTS, WEIGHTS)
    return sum(part / ranks if stage > at else part for at, part in enumerate(parts))


def causal_pairs(first: int, last: int) -> int:
    """Pairs of a query among tokens ``first`` to ``last`` (from 0, inclusive) and a key that it may see."""
    return sum(token + 1 for token in range(first, last + 1))


def pairs_of_rank(tokens: int, ranks: int, rank: int, kind: Literal["zigzag", "allgather"]) -> int:
    """Causal pairs of one rank of context parallelism."""
    if kind == "allgather":
        each = tokens // ranks
        return causal_pairs(rank * each, (rank + 1) * each - 1)
    chunk = tokens // (2 * ranks)
    mirrored = 2 * ranks - 1 - rank
    return sum(causal_pairs(at * chunk, (at + 1) * chunk - 1) for at in (rank, mirrored))


def accepted(rate: float, depth: int) -> float:
    """Expected tokens a verification: (1 - a^(g+1)) / (1 - a); Leviathan et al., arXiv:2211.17192, equation 1."""
    return float(depth + 1) if rate == 1 else (1 - rate ** (depth + 1)) / (1 - rate)


def speculative_speedup(rate: float, depth: int, draft: float, verify: float = 1.0) -> float:
    """Speed-up over plain decoding, costs in steps of the target; arXiv:2211.17192, theorem 3.8."""
    return accepted(rate, depth) / (depth * draft + verify)


def best_depth(rate: float, draft: float, verify: float = 1.0, most: int = 16) -> int:
    """The depth with the largest speed-up."""
    return max(range(1, most + 1), key=lambda depth: speculative_speedup(rate, depth, draft, verify))


def async_speedup(rollout: float, train: float, sync: float = 0.0) -> float:
    """Upper bound of what overlapping gains: (t_R + t_T + t_W) / (max(t_R, t_T) + t_W)."""
    return (rollout + train + sync) / (max(rollout, train) + sync)


def age_share(age: int, mean: float) -> float:
    """Share of samples that are ``age`` updates old when they spent ``mean`` update intervals under way.

    The start falls anywhere between two updates, so that a duration of x intervals spans floor(x) or floor(x) + 1
    updates, the latter with probability x - floor(x).
    """
    return max(0.0, 1 - abs(mean - age)) if abs(mean - age) < 1 else 0.0


def group_slots(concurrency: int, engines: int, samples: int) -> int:
    """Groups that may be under way at once: floor(C E / G)."""
    return concurrency * engines // samples


def kv_bytes(layers: int, heads: int, width: int, bits: int, tokens: int = 1) -> float:
    """Keys and values of attention with grouped queries: 2 L N H d b / 8."""
    return 2 * tokens * layers * heads * width * bits / 8


def survival(machines: int, hours: float, between_failures: float) -> float:
    """Chance that none of the machines fails in this time: exp(-n t / m)."""
    return math.exp(-machines * hours / between_failures)


def save_interval(machines: int, cost: float, between_failures: float) -> float:
    """Best hours between checkpoints that take ``cost`` hours: sqrt(2 d m / n); Young, CACM 17(9), 1974."""
    return math.sqrt(2 * cost * between_failures / machines)


def pass_at_k(samples: int, right: int, k: int) -> float:
    """Chance that k of the samples, drawn without replacement, hold a right one; Chen et al., arXiv:2107.03374, (1)."""
    return 1 - math.comb(samples - right, k) / math.comb(samples, k)


def schedule(stages: int, micro_batches: int, backward: int = 2) -> list[list[tuple[int, int, str, int]]]:
    """The 1F1B schedule: for each stage its blocks ``(start, end, "F" or "B", micro-batch)``, a forward takes 1.

    Each stage runs the order of PipeDream-Flush and waits for what a block needs: its neighbour's forward, or the later
    stage's backward.
    """
    orders = []
    for stage in range(stages):
        warm = min(stages - 1 - stage, micro_batches)
        order = [("F", at) for at in range(warm)]
        for at in range(micro_batches - warm):
            order += [("F", warm + at), ("B", at)]
        order += [("B", at) for at in range(micro_batches - warm, micro_batches)]
        orders.append(order)
    ended: dict[tuple[int, str, int], int] = {}
    done: list[list[tuple[int, int, str, int]]] = [[] for _ in range(stages)]
    while any(len(found) < len(order) for found, order in zip(done, orders, strict=True)):
        for stage, order in enumerate(orders):
            if len(done[stage]) == len(order):
                continue
            kind, at = order[len(done[stage])]
            needed = _needs(kind, at, stage, stages)
            if any(one not in ended for one in needed):
                continue
            free = done[stage][-1][1] if done[stage] else 0
            start = max([free, *(ended[one] for one in needed)])
            end = start + (1 if kind == "F" else backward)
            ended[stage, kind, at] = end
            done[stage].append((start, end, kind, at))
    return done


def idle_share(blocks: list[list[tuple[int, int, str, int]]]) -> float:
    """Share of the time until the last block's end in which stages do nothing."""
    whole = max(end for stage in blocks for _, end, _, _ in stage)
    busy = sum(end - start for stage in blocks for start, end, _, _ in stage)
    for stage in blocks:
        if any(later[0] < earlier[1] for earlier, later in pairwise(stage)):
            raise ValueError("two blocks of a stage overlap")
    return 1 - busy / (whole * len(blocks))


def _needs(kind: str, at: int, stage: int, stages: int) -> list[tuple[int, str, int]]:
    if kind == "F":
        return [] if stage == 0 else [(stage - 1, "F", at)]
    return [(stage, "F", at)] if stage == stages - 1 else [(stage + 1, "B", at), (stage, "F", at)]
