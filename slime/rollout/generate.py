"""One round for training: groups are generated and graded, a filter may drop some, others take their place.

The round is full with `--rollout-batch-size` groups. What is then still in flight is aborted: with `--partial-rollout`
it goes back to the data source as it is and is continued in a later round, without it is dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from slime.data.sample import Sample, Status
from slime.data.source import DataSource
from slime.rollout import hook_results
from slime.rollout.errors import RolloutError
from slime.rollout.evaluate import evaluate_sets
from slime.rollout.filters import decision, filter_metrics
from slime.rollout.grading import check_grader_errors
from slime.rollout.groups import GroupWork
from slime.rollout.machinery import Machinery, machinery
from slime.rollout.outputs import Metrics, RolloutFnEvalOutput, RolloutFnTrainOutput
from slime.rollout.progress import Progress
from slime.rollout.runner import FINISHED, reset

# After a round is full, engines get this long to answer the aborts; then the requests are dropped.
ABORT_SECONDS = 10.0

Group = list[Sample]


async def generate_rollout(
    args: Any, rollout_id: int, data_source: DataSource, evaluation: bool = False
) -> RolloutFnTrainOutput | RolloutFnEvalOutput:
    """The default of ``--rollout-function-path``.

    Every sample in the result passed `Sample.check` and carries the versions of the weights that generated it. If
    anything raises, all groups are back in the source, so that a retry of the round sees the same prompts.

    Args:
        args: the run's configuration.
        rollout_id: number of the round.
        data_source: prompts.
        evaluation: evaluate the held-out sets instead; touches no training data.

    Raises:
        RolloutError: no prompt leaves room for a response, the grader fails too often, or filter and engine leave too
            few groups after ``--dynamic-sampling-max-rounds`` refills.
        HookError: a hook broke its contract.
    """
    if evaluation:
        return await evaluate_sets(machinery(), rollout_id)
    return await TrainingRound(machinery(), data_source, rollout_id).run()


class TrainingRound:
    """The state of one round.

    Attributes:
        accepted: groups that train.
        graded: all groups that were generated whole, dropped ones included.
        dropped: number of groups that the filter dropped, by its reason.
    """

    def __init__(self, tools: Machinery, source: DataSource, rollout_id: int) -> None:
        self.tools = tools
        self.source = source
        self.rollout_id = rollout_id
        self.target = tools.config.rollout_batch_size
        self.accepted: list[Group] = []
        self.graded: list[Group] = []
        self.dropped: Counter[str] = Counter()
        self._refills = 0
        self._taken: list[Group] = []
        self._leftover: list[Group] = []
        self._given_up: list[Group] = []  # aborted by the engine itself, time and again
        self._running: dict[asyncio.Task[Group | None], Group] = {}
        self._filter = tools.hooks.one("dynamic-filter")
        self._runner = tools.sample_runner(tools.runner, tools.config.custom_generate_function_path)
        self._progress = Progress(f"rollout {rollout_id}", 0, tools.emit)
        self._work = GroupWork(
            self._runner, tools.rewarder(tools.rewards), self._progress, tools.hooks, tools.config, rollout_id
        )

    async def run(self) -> RolloutFnTrainOutput:
        """Fill the round; see `generate_rollout`."""
        try:
            async with self._progress:
                await self._fill()
                await self._abort_rest()
            check_grader_errors([s for group in self.graded for s in group], self.tools.rewards.max_grader_error_ratio)
            self.accepted.sort(key=lambda group: -1 if group[0].index is None else group[0].index)
            metrics = self._metrics()
            self._call_hooks()
            self._settle_leftover()
        except BaseException:  # an interrupt, too, must not lose prompts
            await self._cancel()
            give_back(self.source, self._taken)
            raise
        return RolloutFnTrainOutput(self.accepted, metrics)

    async def _fill(self) -> None:
        while len(self.accepted) < self.target:
            while len(self.accepted) + len(self._running) < self.target:
                self._refill()
            done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            # In the order of the prompts, so that which of several that ended together is taken is not left to chance.
            for task in [task for task in self._running if task in done]:
                self._settle(task)

    def _refill(self) -> None:
        config = self.tools.config
        if self._refills == config.dynamic_sampling_max_rounds:
            raise RolloutError(self._exhausted())
        self._refills += 1
        groups = self.source.get_groups(config.over_sampling_batch_size or self.target)
        if not groups:
            raise RolloutError(f"rollout {self.rollout_id}: the data source has no more groups.")
        self._taken.extend(groups)
        self._progress.total += sum(map(len, groups))
        for group in groups:
            self._running[asyncio.create_task(self._work.run(group))] = group

    def _settle(self, task: asyncio.Task[Group | None]) -> None:
        """Take one finished group: accept it, drop it, or keep it for later."""
        group = self._running.pop(task)
        samples = task.result()
        if samples is None:
            self._given_up.append(group)
            return
        self.graded.append(samples)
        if len(self.accepted) >= self.target:
            self._leftover.append(group)
        elif self._keep(samples):
            self.accepted.append(samples)

    def _keep(self, samples: Group) -> bool:
        if self._filter is None:
            return True
        subject = f"group {samples[0].group_index}, {len(samples)} samples"
        found = self._filter.call(subject, decision, self.tools.config, samples)
        if found.keep:
            return True
        if found.keep_when_insufficient and len(self.accepted) + len(self._running) < self.target:
            return True
        self.dropped[found.reason or "unnamed"] += 1
        return False

    async def _abort_rest(self) -> None:
        """End what is in flight, and keep what it has so far."""
        if not self._running:
            return
        await self._runner.stop()
        done, _ = await asyncio.wait(self._running, timeout=ABORT_SECONDS)
        for task in [task for task in self._running if task in done]:
            group = self._running.pop(task)
            if (samples := task.result()) is not None:
                self.graded.append(samples)
            self._leftover.append(group)
        self._leftover.extend(self._running.values())
        await self._cancel()

    async def _cancel(self) -> None:
        tasks = list(self._running)
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call_hooks(self) -> None:
        hooks, config, subject = self.tools.hooks, self.tools.config, f"rollout {self.rollout_id}"
        if (hook := hooks.one("rollout-sample-filter")) is not None:
            hook.call(subject, hook_results.nothing, config, self.accepted)
        if (hook := hooks.one("rollout-all-samples-process")) is not None:
            hook.call(subject, hook_results.nothing, config, self.graded, self.source)

    def _settle_leftover(self) -> None:
        """What was not used goes back to the source, if it is to be continued or the engine gave it up."""
        give_back(self.source, self._given_up)
        if not self.tools.runner.partial_rollout:
            return
        for sample in (sample for group in self._leftover for sample in group):
            if sample.status not in (*FINISHED, Status.ABORTED) or id(sample) in self._runner.replaced:
                reset(sample)
            elif sample.response_length:
                sample.metadata.setdefault("start_rollout_id", self.rollout_id)
        self.source.add_groups(self._leftover)

    def _metrics(self) -> Metrics:
        kept = sum(s.response_length for group in self.accepted for s in group)
        metrics = {
            "rollout/refills": float(self._refills),
            "rollout/generated_tokens": float(self._runner.generated_tokens),
            "rollout/unused_groups": float(len(self._leftover)),
            "rollout/aborted_groups": float(len(self._given_up)),
            "rollout/unused_token_ratio": max(0.0, 1 - kept / max(self._runner.generated_tokens, kept, 1)),
        }
        if self._filter is not None:
            metrics |= filter_metrics(self.dropped, len(self.graded))
        return metrics

    def _exhausted(self) -> str:
        reasons = ", ".join(f"{why} {n}" for why, n in self.dropped.most_common()) or "none"
        return (
            f"rollout {self.rollout_id}: {len(self.accepted)} of {self.target} groups after {self._refills} refills "
            f"(--dynamic-sampling-max-rounds); {len(self.graded)} groups were graded, "
            f"{sum(self.dropped.values())} of them dropped by --dynamic-sampling-filter-path ({reasons}), and "
            f"{len(self._given_up)} aborted by the engine. A filter that drops nearly everything means that the "
            "prompts are all too hard, all too easy, or that the grader never accepts; look at some responses."
        )


def give_back(source: DataSource, groups: list[Group]) -> None:
    """Return groups to the source as bare prompts."""
    for sample in (sample for group in groups for sample in group):
        reset(sample)
    source.add_groups(groups)
