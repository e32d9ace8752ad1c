"""Held-out evaluation: every set with its own sampling and its own grader, all sets at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from slime.data.sample import Sample, Status
from slime.data.source import PromptSource
from slime.rollout.client import SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.eval_sets import HeldOut
from slime.rollout.grading import check_grader_errors
from slime.rollout.groups import GroupWork
from slime.rollout.machinery import Machinery
from slime.rollout.outputs import RolloutFnEvalOutput
from slime.rollout.progress import Progress

T = TypeVar("T")


async def evaluate_sets(tools: Machinery, rollout_id: int) -> RolloutFnEvalOutput:
    """Sample and grade all held-out sets once.

    The seeds of a set's requests are the same at every evaluation, so that two evaluations differ by the weights alone.

    Raises:
        RolloutError: the engine keeps aborting, a prompt leaves no room, or a grader fails too often.
    """
    found = await _together([_evaluate_set(tools, one, rollout_id) for one in tools.held_out])
    return RolloutFnEvalOutput({one.options.name: data for one, data in zip(tools.held_out, found, strict=True)})


async def _evaluate_set(tools: Machinery, one: HeldOut, rollout_id: int) -> dict[str, Any]:
    options = one.options
    groups = _groups(one)
    runner_options = replace(
        tools.runner,
        sampling=_sampling(tools, one),
        max_context_len=options.max_context_len,
        partial_rollout=False,
        name=f"eval-{options.name}",
    )
    runner = tools.sample_runner(runner_options, options.custom_generate_function_path, evaluation=True)
    rewards = replace(
        tools.rewards,
        rm_type=options.rm_type or "",
        reward_key=options.reward_key,
        custom_rm_path=options.custom_rm_path,
        truncated_samples="grade",
    )
    progress = Progress(f"eval {options.name}", sum(map(len, groups)), tools.emit)
    work = GroupWork(runner, tools.rewarder(rewards), progress, tools.hooks, tools.config, rollout_id, evaluation=True)
    async with progress:
        found = await _together([work.run(group) for group in groups])
    whole = [samples for samples in found if samples is not None]
    if len(whole) < len(groups):
        raise RolloutError(
            f"eval {options.name}: the engine aborted {len(groups) - len(whole)} of {len(groups)} prompts."
        )
    samples = [sample for group in whole for sample in group]
    check_grader_errors(samples, rewards.max_grader_error_ratio)
    return {
        "rewards": [sample.reward_value(work.reward_key(sample)) for sample in samples],
        "truncated": [sample.status is Status.TRUNCATED for sample in samples],
        "samples": samples,
    }


async def _together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as siblings:
            tasks = [siblings.create_task(work) for work in works]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _groups(one: HeldOut) -> list[list[Sample]]:
    """Every prompt as often as it is asked; numbered from 0, apart from the numbers of training."""
    groups = PromptSource(one.dataset, one.options.n_samples_per_eval_prompt).get_groups(len(one.dataset))
    overrides: Mapping[str, Any] = one.options.metadata_overrides
    for sample in (sample for group in groups for sample in group):
        sample.metadata.update(overrides)
    return groups


def _sampling(tools: Machinery, one: HeldOut) -> SamplingParams:
    options = one.options
    return SamplingParams(
        max_new_tokens=options.max_response_len,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        stop=options.stop,
        stop_token_ids=one.stop_token_ids,
        min_new_tokens=options.min_new_tokens,
        repetition_penalty=options.repetition_penalty,
        skip_special_tokens=options.skip_special_tokens,
        banned_token_ids=tools.runner.sampling.banned_token_ids,
    )
