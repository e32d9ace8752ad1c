"""``--rollout-function-path slime.rollout.fully_async_rollout.generate_rollout_fully_async``: rounds from a queue."""

from __future__ import annotations

from typing import Any

from slime.data.source import DataSource
from slime.observability.metrics import Metrics
from slime.rollout import hook_results
from slime.rollout.continuous import ContinuousRollout, Tally
from slime.rollout.evaluate import evaluate_sets
from slime.rollout.filters import filter_metrics
from slime.rollout.grading import check_grader_errors
from slime.rollout.machinery import machinery
from slime.rollout.outputs import RolloutFnEvalOutput, RolloutFnTrainOutput


async def generate_rollout_fully_async(
    args: Any, rollout_id: int, data_source: DataSource, evaluation: bool = False
) -> RolloutFnTrainOutput | RolloutFnEvalOutput:
    """Take a round from what is generated in the background; the first call starts that.

    Every sample in the result passed `Sample.check` and carries the versions of all weights that generated it.

    Args:
        args: the run's configuration.
        rollout_id: number of the round.
        data_source: prompts.
        evaluation: evaluate the held-out sets instead, while the queue fills; the weights stay the same meanwhile.

    Raises:
        RolloutError: no prompt leaves room for a response, the grader fails too often, or filter and engine leave too
            few groups. What failed in the background is raised here, too.
        HookError: a hook broke its contract.
    """
    tools = machinery()
    if evaluation:
        return await evaluate_sets(tools, rollout_id)
    producer = tools.background.producer
    if not isinstance(producer, ContinuousRollout):
        producer = tools.background.producer = ContinuousRollout(tools, data_source)
    groups = await producer.take(rollout_id)
    tally = producer.account()
    check_grader_errors([s for group in tally.graded for s in group], tools.rewards.max_grader_error_ratio)
    groups.sort(key=lambda group: -1 if group[0].index is None else group[0].index)
    if (hook := tools.hooks.one("rollout-sample-filter")) is not None:
        hook.call(f"rollout {rollout_id}", hook_results.nothing, tools.config, groups)
    metrics = {**_metrics(tally), **producer.queue}
    if tools.hooks.one("dynamic-filter") is not None:
        metrics |= filter_metrics(tally.filtered, len(tally.graded))
    return RolloutFnTrainOutput(groups, metrics, tally.seconds)


def _metrics(tally: Tally) -> Metrics:
    return {
        "rollout/generated_tokens": float(tally.tokens),
        "rollout/aborted_groups": float(tally.aborted),
        "staleness/dropped_groups": float(tally.stale_groups),
        "staleness/dropped_tokens": float(tally.stale_tokens),
        "perf/pause_time": tally.paused_seconds,
    }
