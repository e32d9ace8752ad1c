"""Rounds and evaluations as the loop asks for them: functions of the user's for whole rounds, and for the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from slime.data.batch import BatchOptions
from slime.data.sample import Sample
from slime.data.schedule import ScheduleOptions
from slime.data.source import DataSource, PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.eval_sets import EvalSet, HeldOut
from slime.rollout.generate import generate_rollout
from slime.rollout.hook_loading import HookError
from slime.rollout.outputs import RolloutFnEvalOutput, RolloutFnTrainOutput
from slime.rollout.rounds import Rollouts
from slime.rollout.setup import RolloutSetup, RoundNumber

from .bigram import Bigram, BigramClient
from .harness import RUNNER, dataset, tools

LOGGED: list[Any] = []


async def half(args: Any, rollout_id: int, data_source: DataSource, evaluation: bool = False) -> RolloutFnTrainOutput:
    """The built-in round, of which half is kept."""
    output = await generate_rollout(args, rollout_id, data_source)
    assert isinstance(output, RolloutFnTrainOutput)
    return RolloutFnTrainOutput(output.samples[:3], {"rollout/mine": 5.0})


async def bare(args: Any, rollout_id: int, data_source: DataSource) -> list[list[Sample]]:
    output = await generate_rollout(args, rollout_id, data_source)
    return output.samples  # type: ignore[union-attr]


def nothing(args: Any, rollout_id: int, data_source: DataSource) -> None: ...


def empty(args: Any, rollout_id: int, data_source: DataSource) -> RolloutFnTrainOutput:
    return RolloutFnTrainOutput([])


def raw(args: Any, rollout_id: int, data_source: DataSource) -> RolloutFnTrainOutput:
    return RolloutFnTrainOutput(data_source.get_groups(2))


def constant(args: Any, rollout_id: int, data_source: DataSource, evaluation: bool) -> RolloutFnEvalOutput:
    assert evaluation
    scores = {"rewards": [1.0, 0.0, 1.0], "truncated": [False] * 3}
    return RolloutFnEvalOutput({"own": scores}, {"eval/own/extra": 2.0})


def uneven(args: Any, rollout_id: int, data_source: DataSource, evaluation: bool) -> dict[str, Any]:
    return {"own": {"rewards": [1.0], "truncated": []}}


def log(
    rollout_id: int, args: Any, samples: list[Sample], extra_metrics: dict[str, float], rollout_time: float
) -> bool:
    LOGGED.append((rollout_id, len(samples), extra_metrics["rollout/refills"], rollout_time > 0))
    return True


def eval_log(rollout_id: int, args: Any, data: dict[str, Any], extra_metrics: dict[str, float]) -> bool:
    LOGGED.append((rollout_id, sorted(data)))
    return True


def rollouts(grader: GraderPool, **flags: Any) -> Rollouts:
    held_out = HeldOut(EvalSet("digits", "", rm_type="math", max_response_len=2), dataset(10))
    machinery = tools(
        BigramClient(Bigram(), "2"), grader, replace(RUNNER, rollout_seed=1), held_out=[held_out], **flags
    )
    setup = RolloutSetup(
        config=machinery.config,
        source=PromptSource(dataset(), 4),
        held_out=machinery.held_out,
        text=machinery.text,
        hooks=machinery.hooks,
        runner=machinery.runner,
        rewards=machinery.rewards,
        batch=BatchOptions(ScheduleOptions(1, 24)),
        notes=[],
        round=RoundNumber(),
    )
    return Rollouts(setup, machinery.client, grader, emit=None)


def test_the_default_round_carries_metrics_of_its_samples(grader: GraderPool) -> None:
    output = asyncio.run(rollouts(grader, rollout_num_gpus=2, log_passrate=True).generate(3, weight_version=4))
    assert len(output.samples) == 6
    assert output.metrics["staleness/max"] == 2.0
    assert output.metrics["rollout/generated_tokens"] > 0 and "passrate/pass@4" in output.metrics
    speed = output.metrics["perf/tokens_per_gpu_per_sec"], output.metrics["perf/effective_tokens_per_gpu_per_sec"]
    assert speed[0] == pytest.approx(speed[1])


@pytest.mark.parametrize(("name", "groups"), [("half", 3), ("bare", 6)])
def test_a_rollout_function_of_ones_own(grader: GraderPool, name: str, groups: int) -> None:
    output = asyncio.run(rollouts(grader, rollout_function_path=f"{__name__}.{name}").generate(0, 2))
    assert len(output.samples) == groups
    assert "rollout/raw_reward" in output.metrics
    assert ("rollout/mine" in output.metrics) == (name == "half")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", r"\(rollout 0\): it returned None; it must be a RolloutFnTrainOutput"),
        ("empty", "it returned no sample; there is nothing to train on"),
        ("raw", r"a sample that breaks its contract: sample 0 \(group 0\): status is pending"),
    ],
)
def test_a_round_that_cannot_train_is_refused(grader: GraderPool, name: str, words: str) -> None:
    with pytest.raises(HookError, match=words):
        asyncio.run(rollouts(grader, rollout_function_path=f"{__name__}:{name}").generate(0, 2))


def test_the_default_evaluation(grader: GraderPool) -> None:
    (scores,) = asyncio.run(rollouts(grader).evaluate(1))
    assert (scores.name, scores.samples) == ("digits", 10)
    assert scores.all_metrics()["eval/digits/response_len/max"] <= 2


def test_an_evaluation_function_of_ones_own(grader: GraderPool) -> None:
    (scores,) = asyncio.run(rollouts(grader, eval_function_path=f"{__name__}.constant").evaluate(1))
    assert scores.mean.value == pytest.approx(2 / 3)
    assert scores.all_metrics()["eval/own/extra"] == 2.0
    with pytest.raises(HookError, match="1 rewards and 0 entries of truncated for 'own'"):
        asyncio.run(rollouts(grader, eval_function_path=f"{__name__}.uneven").evaluate(1))


def test_log_functions_may_replace_the_usual_metrics(grader: GraderPool) -> None:
    LOGGED.clear()
    flags = {
        "custom_rollout_log_function_path": f"{__name__}.log",
        "custom_eval_rollout_log_function_path": f"{__name__}.eval_log",
    }
    own = rollouts(grader, **flags)
    output = asyncio.run(own.generate(7, 2))
    assert "rollout/raw_reward" not in output.metrics and output.metrics["rollout/refills"] == 1
    assert asyncio.run(own.evaluate(7)) == []
    assert LOGGED == [(7, 24, 1.0, True), (7, ["digits"])]
