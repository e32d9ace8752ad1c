"""One group from prompts to rewards: its samples side by side, then the sample hooks, then the grader."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from slime.data.sample import Sample, Status
from slime.rollout.grading import Rewarder
from slime.rollout.hook_results import same_or_sample
from slime.rollout.hook_set import HookSet
from slime.rollout.progress import Progress
from slime.rollout.runner import FINISHED, SampleRunner


@dataclass(frozen=True, slots=True)
class GroupWork:
    """What every group of a round or data set is run with.

    Attributes:
        runner, rewarder, progress: see their classes.
        hooks: the user's functions.
        args: their first argument.
        rollout_id: number of the round, for hooks.
        evaluation: the samples are held out.
    """

    runner: SampleRunner
    rewarder: Rewarder
    progress: Progress
    hooks: HookSet
    args: Any
    rollout_id: int
    evaluation: bool = False

    async def run(self, group: list[Sample]) -> list[Sample] | None:
        """Generate and grade a group.

        Returns:
            Its graded samples; more than were given where a trajectory came in pieces. None if one of them was aborted:
            a group is whole or it does not count, since keeping the samples that were fast would teach the policy to
            answer briefly.

        Raises:
            Whatever the client, a hook or the grader raises first; the group's other samples are cancelled before.
        """
        if all(sample.status in FINISHED and sample.reward is not None for sample in group):
            return group  # finished in an earlier round that was full already
        pieces = [piece for trajectory in await self._generate(group) for piece in trajectory]
        if any(piece.status is Status.ABORTED for piece in pieces):
            return None
        samples = [await self._hooked(piece) for piece in pieces]
        self.runner.replaced.update(id(old) for old, new in zip(pieces, samples, strict=True) if new is not old)
        for sample in samples:
            sample.check(graded=False)
        await self.rewarder.reward(samples)
        for sample in samples:
            sample.check(graded=True, reward_key=self.reward_key(sample))
        return samples

    def reward_key(self, sample: Sample) -> str | None:
        """The key of this sample's reward; a plain number has none."""
        return self.rewarder.options.reward_key if isinstance(sample.reward, dict) else None

    async def _generate(self, group: list[Sample]) -> list[list[Sample]]:
        async def one(sample: Sample) -> list[Sample]:
            pieces = await self.runner.run(sample)
            self.progress.add(sum(piece.response_length for piece in pieces))
            return pieces

        try:
            async with asyncio.TaskGroup() as siblings:
                tasks = [siblings.create_task(one(sample)) for sample in group]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _hooked(self, sample: Sample) -> Sample:
        for hook in self.hooks.all("rollout-sample-hook"):
            sample = await hook(
                sample.name(),
                same_or_sample(sample),
                self.args,
                sample,
                rollout_id=self.rollout_id,
                evaluation=self.evaluation,
            )
        return sample
