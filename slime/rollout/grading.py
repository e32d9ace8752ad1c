"""Rewards for a group of responses: from the built-in graders' worker pool, or from a function of the user's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slime.data.sample import Sample, Status
from slime.rewards.pool import GradeRequest
from slime.rewards.verdict import Verdict
from slime.rollout import hook_results
from slime.rollout.errors import RolloutError
from slime.rollout.hook_call import HookFailedError, HookFunction
from slime.rollout.hook_set import HookSet


class Grader(Protocol):
    """What grades: `slime.rewards.service.GradingService`."""

    async def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """One verdict for each request, in order."""
        ...


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """Names are the flags'.

    Attributes:
        rm_type: grader, for rows whose metadata names none.
        reward_key: entry of a reward that is a mapping.
        group_rm: the user's function grades a whole group at once.
        truncated_samples: what a response that was cut at its limit is worth: "grade" = what the grader says, "wrong" =
            as if it held no answer, "mask" = graded, but left out of the loss.
        max_grader_error_ratio: share of failed gradings above which a round is refused.
        custom_rm_path: the user's function, of the run or of the data set; a sample may name its own.
    """

    rm_type: str
    reward_key: str | None = None
    group_rm: bool = False
    truncated_samples: str = "grade"
    max_grader_error_ratio: float = 0.2
    custom_rm_path: str | None = None


class Rewarder:
    """Gives samples their rewards."""

    def __init__(self, grader: Grader, options: RewardOptions, hooks: HookSet, args: Any) -> None:
        """
        Args:
            grader: the built-in graders.
            options: see `RewardOptions`.
            hooks: the user's functions.
            args: first argument of those.
        """
        self.options = options
        self._grader = grader
        self._hooks = hooks
        self._args = args

    async def reward(self, samples: list[Sample]) -> None:
        """Set reward and verdict of each sample of a group; a reward that its generation function set stays.

        A sample whose grader failed is kept out of the loss: its reward says nothing about the response.

        Raises:
            HookError: the user's function returned something unusable.
        """
        ungraded = [sample for sample in samples if sample.reward is None]
        path = self.options.custom_rm_path
        if path and self.options.group_rm:
            if ungraded:
                await self._reward_group(self._hooks.at("custom-rm-group", path), samples)
        else:
            await self._reward_each(ungraded)
        for sample in samples:
            failed = sample.verdict == "grader-error"
            masked = self.options.truncated_samples == "mask" and sample.status is Status.TRUNCATED
            sample.remove_sample = sample.remove_sample or failed or masked

    async def _reward_each(self, samples: list[Sample]) -> None:
        hooked = [(sample, hook) for sample in samples if (hook := self._hook_of(sample)) is not None]
        others = [sample for sample in samples if self._hook_of(sample) is None]
        await asyncio.gather(self._grade(others), *(self._reward_one(hook, sample) for sample, hook in hooked))

    def _hook_of(self, sample: Sample) -> HookFunction | None:
        path = sample.custom_rm_path or self.options.custom_rm_path
        return self._hooks.at("custom-rm", path) if path else None

    async def _grade(self, samples: list[Sample]) -> None:
        if not samples:
            return
        for sample, verdict in zip(samples, await self._grader.grade(list(map(self._request, samples))), strict=True):
            cut = self._counts_as_wrong(sample) and verdict.kind != "grader-error"
            sample.reward, sample.verdict = verdict.value(self.options.reward_key), verdict.kind
            sample.verdict_reason = "cut at its length limit (--truncated-samples wrong)" if cut else verdict.reason

    def _request(self, sample: Sample) -> GradeRequest:
        # Graders differ in the score of a wrong answer; that of an empty response is the right one for each.
        response = "" if self._counts_as_wrong(sample) else sample.response
        rm_type = str(sample.metadata.get("rm_type", self.options.rm_type))
        prompt = sample.prompt if isinstance(sample.prompt, str) else json.dumps(sample.prompt, ensure_ascii=False)
        return GradeRequest(rm_type, response, sample.label, sample.metadata, prompt)

    def _counts_as_wrong(self, sample: Sample) -> bool:
        return self.options.truncated_samples == "wrong" and sample.status is Status.TRUNCATED

    async def _reward_one(self, hook: HookFunction, sample: Sample) -> None:
        check = hook_results.checked(hook_results.reward(self.options.reward_key))
        try:
            sample.reward = await hook(sample.name(), check, self._args, sample)
            sample.verdict = "custom"
        except HookFailedError as error:
            _fail(sample, error)

    async def _reward_group(self, hook: HookFunction, samples: list[Sample]) -> None:
        check = hook_results.checked(hook_results.rewards(len(samples), self.options.reward_key))
        subject = f"group {samples[0].group_index}, {len(samples)} samples"
        try:
            rewards = await hook(subject, check, self._args, samples)
        except HookFailedError as error:
            for sample in samples:
                _fail(sample, error)
            return
        for sample, reward in zip(samples, rewards, strict=True):
            sample.reward, sample.verdict = reward, "custom"


def _fail(sample: Sample, error: HookFailedError) -> None:
    sample.reward, sample.verdict, sample.verdict_reason = 0.0, "grader-error", str(error)


def check_grader_errors(samples: list[Sample], limit: float) -> None:
    """Refuse a round in which the grader failed too often; such a run would train on noise without a sign of it.

    Raises:
        RolloutError: if more than the share `limit` of the samples has the verdict "grader-error".
    """
    failed = [sample for sample in samples if sample.verdict == "grader-error"]
    if len(failed) > limit * len(samples):
        raise RolloutError(
            f"the grader failed on {len(failed)} of {len(samples)} samples (limit {limit:.0%}); "
            f"the first, {failed[0].name()}: {failed[0].verdict_reason}"
        )
