"""Metrics of one round's samples. Names are slime's: `rollout/...`, `multi_turn/...`, `passrate/...`."""

from __future__ import annotations

import statistics
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slime.data.sample import Sample, Status
from slime.observability.estimates import ks, pass_at_k

Metrics = dict[str, float]
Groups = Sequence[Sequence[Sample]]

REPETITION_CHARACTERS = 10_000
REPETITION_RATIO = 10


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """Which metrics are made besides the usual ones; names are the flags' (``--log-...``).

    Attributes:
        reward_key: entry of a reward that is a mapping, ``--reward-key``.
        passrate: pass@k of the training prompts.
        multi_turn: lengths with and without what tools said, and turns.
        correct_samples: lengths of the right answers.
        reward_category: key of a reward mapping whose values are counted.
    """

    reward_key: str | None = None
    passrate: bool = False
    multi_turn: bool = False
    correct_samples: bool = False
    reward_category: str | None = None


def rollout_metrics(groups: Groups, weight_version: int, options: MetricOptions = MetricOptions()) -> Metrics:
    """What a round's samples look like.

    Args:
        groups: samples, those of one prompt together. Rewards may be absent (supervised data).
        weight_version: version of the weights that the engines hold.
        options: see `MetricOptions`.

    Returns:
        `rollout/raw_reward`: mean reward. `rollout/response_len/{mean,median,max,min}`: trained tokens of a response.
        `rollout/truncated_ratio`: share of responses cut at the limit. `rollout/zero_std_ratio`: share of groups whose
        rewards are all equal, which teach nothing; `rollout/zero_std/count_<reward>` counts them by their reward.
        `rollout/log_probs`: mean log-prob of a sampled token. `rollout/verdict/<kind>`: share of each of the grader's
        verdicts. `rollout/repetition_frac`: share of long texts that repeat themselves. `rollout/weight_version`:
        `weight_version`. `staleness/{mean,max}`: how many versions older the weights were that generated a sample's
        oldest token. `rollout/non_generation_time`: mean seconds in tools, where there were any.
        `rollout/prefix_cache_hit_rate`, `rollout/avg_cached_tokens_per_sample`, `rollout/spec_accept_rate` and
        `rollout/spec_accept_length`, where the engine reports them.
    """
    samples = [sample for group in groups for sample in group]
    metrics = {
        **length_metrics(samples),
        "truncated_ratio": _share(sample.status is Status.TRUNCATED for sample in samples),
        "repetition_frac": _share(map(repeats_itself, (sample.response for sample in samples))),
        "weight_version": float(weight_version),
        **_rewards(groups, options),
    }
    log_probs = [
        value
        for sample in samples
        if sample.rollout_log_probs is not None  # supervised samples have none
        for value, trains in zip(sample.rollout_log_probs, sample.loss_mask or _ones(sample), strict=True)
        if trains
    ]
    if log_probs:
        metrics["log_probs"] = statistics.fmean(log_probs)
    metrics |= _engine(samples)
    if any(sample.non_generation_time for sample in samples):
        metrics["non_generation_time"] = statistics.fmean(sample.non_generation_time for sample in samples)
    found = {f"rollout/{name}": value for name, value in metrics.items()}
    ages = [weight_version - min(map(int, sample.weight_versions)) for sample in samples if sample.weight_versions]
    if ages:
        found |= {"staleness/mean": statistics.fmean(ages), "staleness/max": float(max(ages))}
    if options.multi_turn:
        found |= _multi_turn(samples)
    if options.passrate:
        found |= _passrate(groups, options.reward_key)
    return found


def speed_metrics(samples: Sequence[Sample], seconds: float, generated_tokens: float, gpus: int) -> Metrics:
    """How fast a round was made.

    Args:
        samples: those that train.
        seconds: wall clock of the round.
        generated_tokens: all that the engines made, what was thrown away included.
        gpus: of the engines (on a CPU: processes).

    Returns:
        `perf/tokens_per_gpu_per_sec`: generated tokens. `perf/effective_tokens_per_gpu_per_sec`: those that train.
        `perf/longest_sample_tokens_per_sec`: of the longest response, which is what a round waits for.
    """
    shared = max(seconds, 1e-9) * max(gpus, 1)
    return {
        "perf/tokens_per_gpu_per_sec": generated_tokens / shared,
        "perf/effective_tokens_per_gpu_per_sec": sum(s.effective_response_length() for s in samples) / shared,
        "perf/longest_sample_tokens_per_sec": max(s.response_length for s in samples) / max(seconds, 1e-9),
    }


def length_metrics(samples: Sequence[Sample]) -> Metrics:
    """`response_len/{mean,median,max,min}`, in trained tokens."""
    return _statistics("response_len", [sample.effective_response_length() for sample in samples])


def repeats_itself(text: str) -> bool:
    """Whether the last 10,000 characters of a longer text compress more than tenfold: a loop."""
    if len(text) <= REPETITION_CHARACTERS:
        return False
    tail = text[-REPETITION_CHARACTERS:].encode()
    return len(tail) > REPETITION_RATIO * len(zlib.compress(tail))


def _rewards(groups: Groups, options: MetricOptions) -> Metrics:
    samples = [sample for group in groups for sample in group]
    if any(sample.reward is None for sample in samples):
        return {}
    values = [[_reward(sample, options.reward_key) for sample in group] for group in groups]
    equal = [group[0] for group in values if len(set(group)) == 1]
    metrics = {
        "raw_reward": statistics.fmean(value for group in values for value in group),
        "zero_std_ratio": len(equal) / len(groups),
    }
    metrics |= {f"zero_std/count_{reward:.1f}": float(count) for reward, count in sorted(Counter(equal).items())}
    verdicts = Counter(sample.verdict or "ungraded" for sample in samples)
    metrics |= {f"verdict/{kind}": count / len(samples) for kind, count in sorted(verdicts.items())}
    if options.correct_samples:
        right = [s for s in samples if _reward(s, options.reward_key) == 1.0]
        metrics["correct_samples/ratio"] = len(right) / len(samples)
        if right:
            metrics |= {f"correct_samples/{name}": value for name, value in length_metrics(right).items()}
    if options.reward_category is not None:
        kinds = [s.reward.get(options.reward_category, "none") for s in samples if isinstance(s.reward, dict)]
        shares = Counter(map(str, kinds))
        metrics |= {f"error_cat/{kind}": count / len(samples) for kind, count in sorted(shares.items())}
    return metrics


def _engine(samples: Sequence[Sample]) -> Metrics:
    """What the engine saved: prompt tokens from its prefix cache, steps by speculative decoding."""
    metrics: Metrics = {}
    if prompts := sum(sample.prefix_cache_info.total_prompt_tokens for sample in samples):
        cached = sum(sample.prefix_cache_info.cached_tokens for sample in samples)
        metrics["prefix_cache_hit_rate"] = cached / prompts
        metrics["avg_cached_tokens_per_sample"] = cached / len(samples)
    if steps := sum(sample.spec_info.spec_verify_ct for sample in samples):
        drafted = sum(sample.spec_info.spec_draft_token_num for sample in samples)
        accepted = sum(sample.spec_info.spec_accept_token_num for sample in samples)
        metrics["spec_accept_rate"] = accepted / drafted if drafted else 0.0
        metrics["spec_accept_length"] = sum(sample.spec_info.completion_token_num for sample in samples) / steps
    return metrics


def _multi_turn(samples: Sequence[Sample]) -> Metrics:
    whole = [sample.response_length for sample in samples]
    own = [sum(sample.loss_mask or _ones(sample)) for sample in samples]
    turns = [len(sample.weight_versions) for sample in samples]
    return {
        f"multi_turn/{name}": value
        for name, value in {
            **_statistics("raw_response_length/response_length", whole, "_"),
            **_statistics("wo_obs_response_length/response_length", own, "_"),
            **_statistics("multi_turn_metric/round_number", turns, "_"),
        }.items()
        if not name.endswith("median")
    }


def _passrate(groups: Groups, reward_key: str | None) -> Metrics:
    counts = [(len(group), sum(_reward(sample, reward_key) == 1.0 for sample in group)) for group in groups]
    return {
        f"passrate/pass@{k}": statistics.fmean(pass_at_k(n, correct, k) for n, correct in counts)
        for k in ks(min(n for n, _ in counts))
    }


def _reward(sample: Sample, reward_key: str | None) -> float:
    return sample.reward_value(reward_key if isinstance(sample.reward, dict) else None)


def _statistics(name: str, values: Sequence[float], joint: str = "/") -> Metrics:
    return {
        f"{name}{joint}mean": statistics.fmean(values),
        f"{name}{joint}median": float(statistics.median(values)),
        f"{name}{joint}max": float(max(values)),
        f"{name}{joint}min": float(min(values)),
    }


def _ones(sample: Sample) -> list[int]:
    return [1] * sample.response_length


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values)
