"""Many groups at once: generate each sample, grade each group when it is whole, stop at the deadline."""

from __future__ import annotations

import asyncio

from slime.data.sample import Sample, Status
from slime.rollout.grading import Grader, grade_samples
from slime.rollout.progress import Progress
from slime.rollout.runner import SampleRunner

# After the deadline, engines get this long to answer the aborts; then the requests are dropped.
ABORT_SECONDS = 10.0


async def run_groups(
    runner: SampleRunner,
    grader: Grader,
    rm_type: str,
    groups: list[list[Sample]],
    progress: Progress,
    deadline: float | None = None,
) -> list[list[Sample]]:
    """Generate and grade in place; return the groups that are whole, in their order.

    Groups that are not whole after `deadline` seconds hold a sample that is aborted. They are left out entirely:
    keeping only the samples that were fast would teach the policy to answer briefly.

    Raises:
        Whatever the client or the grader raises first; all other work is cancelled before.
    """
    tasks = [asyncio.create_task(_run_group(runner, grader, rm_type, group, progress)) for group in groups]
    try:
        await _wait(tasks, deadline)
        late = [task for task in tasks if not task.done()]
        if late:
            await runner.stop()
            await _wait(late, ABORT_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [group for task, group in zip(tasks, groups, strict=True) if not task.cancelled() and task.result()]


async def _wait(tasks: list[asyncio.Task[bool]], timeout: float | None) -> None:
    """Until all are done, one fails, or `timeout` seconds are over; a failure is raised."""
    if not tasks:
        return
    done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        if task in done and (error := task.exception()) is not None:
            raise error


async def _run_group(
    runner: SampleRunner, grader: Grader, rm_type: str, group: list[Sample], progress: Progress
) -> bool:
    async def one(sample: Sample) -> None:
        await runner.run(sample)
        progress.add(sample.response_length)

    # A TaskGroup cancels the siblings of a sample that fails.
    try:
        async with asyncio.TaskGroup() as siblings:
            for sample in group:
                siblings.create_task(one(sample))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if any(sample.status is Status.ABORTED for sample in group):
        return False
    await grade_samples(grader, rm_type, group)
    for sample in group:
        sample.check(graded=True)
    return True
