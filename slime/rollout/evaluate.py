"""Accuracy on a held-out set: every prompt `n_samples` times, sampled, and the mean over all of them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass

from slime.data.prompts import PromptDataset
from slime.data.sample import Sample, Status
from slime.data.source import PromptSource
from slime.rollout.client import GenerateClient, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.grading import Grader, check_grader_errors
from slime.rollout.groups import run_groups
from slime.rollout.progress import Print, Progress
from slime.rollout.runner import Decode, SampleRunner


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Names are the flags' where there is one; see `slime.rollout.generate.RolloutOptions` for the others.

    Attributes:
        n_samples: responses to each prompt, ``--n-samples-per-eval-prompt``.
    """

    sampling: SamplingParams
    rm_type: str
    concurrency: int
    n_samples: int = 1
    max_context_len: int | None = None
    max_grader_error_ratio: float = 0.2
    progress_interval: float = 10.0


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Scores of one data set.

    Attributes:
        name: of the data set.
        mean: mean score over prompts and samples.
        standard_error: of the mean, over prompts, whose samples are not independent of each other; 0.0 for one prompt.
        truncated_ratio: share of responses cut at the limit.
        verdicts: number of samples of each verdict.
        samples: all of them, in order.
        seconds: wall clock.
    """

    name: str
    mean: float
    standard_error: float
    truncated_ratio: float
    verdicts: dict[str, int]
    samples: list[Sample]
    seconds: float


async def evaluate(
    client: GenerateClient,
    dataset: PromptDataset,
    grader: Grader,
    decode: Decode,
    options: EvalOptions,
    name: str,
    emit: Print | None = print,
) -> EvalResult:
    """Sample and grade the whole data set once. Touches no training data.

    Raises:
        RolloutError: if the engine keeps aborting, a prompt leaves no room, or the grader fails too often.
    """
    groups = PromptSource(dataset, options.n_samples).get_groups(len(dataset))
    samples = [sample for group in groups for sample in group]
    runner = SampleRunner(
        client, decode, options.sampling, options.concurrency, options.max_context_len, f"eval-{name}"
    )
    progress = Progress(f"eval {name}", len(samples), emit, options.progress_interval)
    async with progress:
        whole = await run_groups(runner, grader, options.rm_type, groups, progress)
    if len(whole) < len(groups):
        raise RolloutError(f"eval {name}: the engine aborted {len(groups) - len(whole)} of {len(groups)} prompts.")
    check_grader_errors(samples, options.max_grader_error_ratio)
    means = [statistics.fmean(sample.reward or 0.0 for sample in group) for group in groups]
    return EvalResult(
        name=name,
        mean=statistics.fmean(means),
        standard_error=statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0,
        truncated_ratio=statistics.fmean(float(sample.status is Status.TRUNCATED) for sample in samples),
        verdicts=dict(Counter(sample.verdict or "" for sample in samples)),
        samples=samples,
        seconds=progress.seconds(),
    )
