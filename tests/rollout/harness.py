"""Rounds and evaluations over the small model of `bigram`, with the real graders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slime.config import Config
from slime.data.prompts import Prompt, PromptDataset
from slime.data.sample import Sample
from slime.data.source import PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.client import SamplingParams
from slime.rollout.eval_sets import HeldOut
from slime.rollout.generate import generate_rollout
from slime.rollout.grading import RewardOptions
from slime.rollout.hook_set import HookSet
from slime.rollout.machinery import Machinery
from slime.rollout.outputs import RolloutFnTrainOutput
from slime.rollout.runner import RunnerOptions
from slime.rollout.text import TextTools

from .bigram import EOS, decode, tokenize

RUNNER = RunnerOptions(SamplingParams(max_new_tokens=5, temperature=0.8), concurrency=7)


def dataset(count: int = 8) -> PromptDataset:
    texts = [f"{i}+{i}=" for i in range(count)]
    return PromptDataset([Prompt(text, tokenize(text), str(i % 3), {}) for i, text in enumerate(texts)], "bigram")


def tools(
    client: Any,
    grader: GraderPool,
    runner: RunnerOptions = RUNNER,
    rewards: RewardOptions | None = None,
    held_out: Sequence[HeldOut] = (),
    **flags: Any,
) -> Machinery:
    """What a round runs with; `flags` are Config fields."""
    config = Config(**{"rollout_batch_size": 6, "n_samples_per_prompt": 4, "rm_type": "math", **flags})
    options = replace(
        rewards or RewardOptions("math"),
        custom_rm_path=config.custom_rm_path,
        reward_key=config.reward_key,
        group_rm=config.group_rm,
    )
    runner = replace(
        runner,
        partial_rollout=config.partial_rollout,
        mask_offpolicy_in_partial_rollout=config.mask_offpolicy_in_partial_rollout,
    )
    text = TextTools(tokenize, decode, (EOS,))
    return Machinery(config, client, grader, text, HookSet(config), runner, options, tuple(held_out), emit=None)


def round_of(machinery: Machinery, source: PromptSource | None = None, rollout_id: int = 3) -> RolloutFnTrainOutput:
    """One round through the default rollout function."""

    async def run() -> Any:
        with machinery.bound():
            return await generate_rollout(
                machinery.config, rollout_id, PromptSource(dataset(), 4) if source is None else source
            )

    return asyncio.run(run())


def flat(output: RolloutFnTrainOutput) -> list[Sample]:
    return [sample for group in output.samples for sample in group]
