"""What a checkpoint keeps of a queue, and what a run makes of it that resumes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slime.data.sample import Status
from slime.data.source import PromptSource, ResumeError
from slime.rewards.pool import GraderPool
from slime.rollout.outputs import RolloutFnTrainOutput

from .harness import dataset
from .queue_harness import Engine, numbers, producer, quiet, rollouts, until, update, with_engine


def test_a_checkpoint_holds_what_is_in_flight_and_what_waits(grader: GraderPool) -> None:
    """Saved after the first round, with graded groups in the queue and others in flight; the resumed run trains each
    of them once, and does not generate graded ones again.
    """
    saved: dict[str, Any] = {}

    async def begin(engine: Engine) -> list[int]:
        engine.held = {5}
        async with rollouts(grader, engine) as run:
            output = await run.generate(0, 1)
            await until(lambda: producer(run).queue["rollout/queue_length"] >= 3)
            saved.update(json.loads(json.dumps(run.state_dict())))
            assert producer(run).queue["rollout/in_flight"] > 0
        return numbers(output)

    async def resume(engine: Engine) -> tuple[list[int], int]:
        async with rollouts(grader, engine) as run:
            run.load_state_dict(saved)
            found = []
            for round_id in range(1, 6):
                found += numbers(await run.generate(round_id, round_id + 1))
                await update(run, engine, round_id + 2)
            return found, sum(last + 1 for last in engine.asked.values())

    first = with_engine(begin)
    waiting = saved["unfinished_groups"]
    graded = [group[0]["group_index"] for group in waiting if group[0]["reward"] is not None]
    assert len(graded) >= 3 and len(waiting) > len(graded)
    assert all(sample["weight_versions"] == ["1"] for group in waiting for sample in group if sample["reward"])
    assert all(sample["response_length"] == 0 for group in waiting for sample in group if sample["reward"] is None)
    later, requests = with_engine(resume)
    assert sorted([*first, *later]) == list(range(24))
    assert requests == 4 * (24 - len(first) - len(graded)), "one for each sample that was not graded"


def test_a_damaged_checkpoint_is_refused_and_changes_nothing(grader: GraderPool) -> None:
    async def work(engine: Engine) -> None:
        run = rollouts(grader, engine)
        state = {**run.state_dict(), "offset": 3, "unfinished_groups": [[{"indx": 3}]]}
        with pytest.raises(ResumeError, match="no field 'indx'; the nearest is 'index'"):
            run.load_state_dict(state)
        assert run.setup.source.state_dict()["offset"] == 0

    with_engine(work)


def test_what_is_too_old_begins_again_and_is_counted(grader: GraderPool) -> None:
    """Groups that a checkpoint brings from version 1, in a run that allows one update and begins at version 4."""
    source = PromptSource(dataset(), 4)
    old = source.get_groups(2)
    for sample in (sample for group in old for sample in group):
        sample.append_response_tokens([0, 1], [-1.0, -1.0], text="01", weight_version="1")
        sample.status, sample.reward = Status.COMPLETED, 1.0

    async def work(engine: Engine) -> RolloutFnTrainOutput:
        engine.update(4)
        source.add_groups(old)
        async with rollouts(grader, engine, source, max_weight_staleness=1) as run:
            return await run.generate(3, 4)

    output = with_engine(work)
    assert output.metrics["staleness/dropped_groups"] == 2
    assert output.metrics["staleness/dropped_tokens"] == 2 * 4 * 2
    assert output.metrics["staleness/max"] == 0
    assert numbers(output) == [0, 1, 2, 3]


@pytest.mark.parametrize("first", [0, 3, 40])
def test_saved_groups_keep_their_age_whatever_the_first_round_is(grader: GraderPool, first: int) -> None:
    """Saved at version 1 and loaded by a run that begins with another round (--start-rollout-id), at version 2."""
    saved: dict[str, Any] = {}

    async def begin(engine: Engine) -> None:
        async with rollouts(grader, engine, max_weight_staleness=2, num_rollout=60) as run:
            await run.generate(0, 1)
            await quiet(run)
            saved.update(json.loads(json.dumps(run.state_dict())))

    async def resume(engine: Engine) -> list[RolloutFnTrainOutput]:
        outputs = []
        engine.update(2)
        async with rollouts(grader, engine, max_weight_staleness=2, num_rollout=60) as run:
            run.load_state_dict(saved)
            for place in range(2):
                outputs.append(await run.generate(first + place, 2 + place))
                await update(run, engine, 3 + place)
        return outputs

    with_engine(begin)
    assert len(saved["unfinished_groups"]) == 8
    outputs = with_engine(resume)
    assert [output.metrics["staleness/mean"] for output in outputs] == [1, 2], "of both batches that were saved"
    assert all(output.metrics["staleness/dropped_groups"] == 0 for output in outputs)
