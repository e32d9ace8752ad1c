"""Held-out accuracy: the mean over all samples, its error, and a source that is not touched."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import replace

import pytest

from slime.data.prompts import Prompt, PromptDataset
from slime.rewards.graders import grade
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.evaluate import EvalOptions, evaluate

from .bigram import EOS, Bigram, BigramClient, decode, tokenize

DATA = PromptDataset([Prompt(f"{i}=", tokenize(f"{i}="), str(i % 4), {}) for i in range(10)], "held out")


def test_the_mean_is_over_every_prompt_and_sample(grader: GraderPool) -> None:
    options = EvalOptions(SamplingParams(2, temperature=4.0), "math", concurrency=8, n_samples=12)
    result = asyncio.run(evaluate(BigramClient(Bigram(3)), DATA, grader, decode, options, "digits", emit=None))
    assert len(result.samples) == 120
    scores = [grade("math", sample.response, sample.label).score for sample in result.samples]
    assert 0 < result.mean < 1
    assert result.mean == pytest.approx(statistics.fmean(scores))
    groups = [statistics.fmean(scores[12 * i : 12 * i + 12]) for i in range(10)]
    assert result.standard_error == pytest.approx(statistics.stdev(groups) / 10**0.5)
    assert sum(result.verdicts.values()) == 120
    assert result.verdicts["correct"] == sum(scores)
    assert result.truncated_ratio == sum(s.tokens[-1] != EOS for s in result.samples) / 120


def test_an_engine_that_always_aborts_is_an_error(grader: GraderPool) -> None:
    class AlwaysAborts(BigramClient):
        async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
            return replace(await super().generate(input_ids, sampling, rid), finish_reason="abort")

    options = EvalOptions(SamplingParams(4), "math", concurrency=8)
    with pytest.raises(RolloutError, match="the engine aborted 10 of 10 prompts"):
        asyncio.run(evaluate(AlwaysAborts(Bigram()), DATA, grader, decode, options, "digits", emit=None))
