"""Held-out evaluation: each set with its own sampling and grader, and scores that agree with the samples."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slime.config import Config
from slime.data.sample import Sample
from slime.observability.evaluation import EvalScores, eval_scores
from slime.rewards.graders import grade
from slime.rewards.pool import GraderPool
from slime.rollout.client import Generation, SamplingParams
from slime.rollout.errors import RolloutError, SetupError
from slime.rollout.eval_sets import EvalSet, HeldOut, eval_sets
from slime.rollout.evaluate import evaluate_sets
from slime.rollout.machinery import Machinery
from slime.rollout.outputs import RolloutFnEvalOutput

from .bigram import EOS, Bigram, BigramClient
from .harness import dataset, tools

DIGITS = EvalSet("digits", "digits.jsonl", n_samples_per_eval_prompt=12, temperature=4.0, max_response_len=2)


def evaluated(machinery: Machinery) -> RolloutFnEvalOutput:
    return asyncio.run(evaluate_sets(machinery, 0))


def held_out(options: EvalSet) -> HeldOut:
    return HeldOut(options, dataset(10))


async def always_half(args: Any, sample: Sample) -> float:
    return 0.5


def test_the_scores_are_those_of_every_prompt_and_sample(grader: GraderPool) -> None:
    machinery = tools(BigramClient(Bigram(3)), grader, held_out=[held_out(replace(DIGITS, rm_type="math"))])
    data = evaluated(machinery).data["digits"]
    samples = data["samples"]
    assert len(samples) == 120
    right = [grade("math", sample.response, sample.label).score for sample in samples]
    assert data["rewards"] == right
    assert data["truncated"] == [sample.tokens[-1] != EOS for sample in samples]
    scores = eval_scores("digits", data, {})
    assert 0 < scores.mean.value < 1
    assert scores.mean.value == pytest.approx(statistics.fmean(right))
    groups = [statistics.fmean(right[12 * i : 12 * i + 12]) for i in range(10)]
    assert scores.standard_error == pytest.approx(statistics.stdev(groups) / 10**0.5)
    assert sorted(scores.pass_at) == [1, 2, 4, 8, 12]
    assert scores.pass_at[1].value == pytest.approx(scores.mean.value)
    assert scores.pass_at[12].value == statistics.fmean(float(any(right[12 * i : 12 * i + 12])) for i in range(10))


def test_each_set_has_its_own_sampling_and_grader(grader: GraderPool) -> None:
    own = held_out(replace(DIGITS, name="own", custom_rm_path=f"{__name__}.always_half", max_response_len=4))
    built_in = held_out(replace(DIGITS, rm_type="math", n_samples_per_eval_prompt=2))
    data = evaluated(tools(BigramClient(Bigram(3)), grader, held_out=[own, built_in])).data
    assert set(data["own"]["rewards"]) == {0.5}
    assert max(sample.response_length for sample in data["own"]["samples"]) > 2
    assert set(data["digits"]["rewards"]) <= {0.0, 1.0} and len(data["digits"]["rewards"]) == 20


def test_two_evaluations_of_the_same_weights_are_equal(grader: GraderPool) -> None:
    def tokens(concurrency: int) -> list[list[int]]:
        machinery = tools(BigramClient(Bigram(3)), grader, held_out=[held_out(replace(DIGITS, rm_type="math"))])
        runner = replace(machinery.runner, rollout_seed=1, concurrency=concurrency)
        samples = evaluated(replace(machinery, runner=runner)).data["digits"]["samples"]
        return [sample.tokens for sample in samples]

    assert tokens(3) == tokens(50)


def test_an_engine_that_always_aborts_is_an_error(grader: GraderPool) -> None:
    class AlwaysAborts(BigramClient):
        async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
            return replace(await super().generate(input_ids, sampling, rid), finish_reason="abort")

    machinery = tools(AlwaysAborts(Bigram()), grader, held_out=[held_out(replace(DIGITS, rm_type="math"))])
    with pytest.raises(RolloutError, match="eval digits: the engine aborted 10 of 10 prompts"):
        evaluated(machinery)


FILE = """
eval:
  defaults: {n_samples_per_eval_prompt: 4, temperature: 0.5, rm_type: deepscaler}
  datasets:
    - {name: aime, path: a.jsonl, temperature: 1, stop: "###", metadata_overrides: {level: hard}}
    - {name: gpqa, path: b.jsonl, rm_type: gpqa, stop_token_ids: [7, 8], max_response_len: 9}
"""


def config_with(text: str, tmp_path: Path, **flags: Any) -> Config:
    path = tmp_path / "eval.yaml"
    path.write_text(text, encoding="utf-8")
    defaults = {"eval_temperature": 0.1, "eval_top_p": 1.0, "eval_top_k": -1, "eval_max_response_len": 16}
    return Config(eval_config=str(path), eval_input_key="prompt", eval_label_key="label", **{**defaults, **flags})


def test_a_value_is_the_sets_own_or_the_defaults_or_the_flags(tmp_path: Path) -> None:
    aime, gpqa = eval_sets(config_with(FILE, tmp_path, custom_rm_path="a.b", rollout_seed=1))
    assert (aime.name, aime.path, aime.temperature, aime.stop) == ("aime", "a.jsonl", 1.0, ("###",))
    assert (aime.n_samples_per_eval_prompt, aime.rm_type, aime.max_response_len) == (4, "deepscaler", 16)
    assert aime.metadata_overrides == {"level": "hard"}
    assert (gpqa.temperature, gpqa.rm_type, gpqa.stop_token_ids, gpqa.max_response_len) == (0.5, "gpqa", (7, 8), 9)
    assert gpqa.custom_rm_path is None  # the file names a grader, so the flag's function yields
    assert (gpqa.input_key, gpqa.label_key) == ("prompt", "label")


def test_without_a_file_the_flags_describe_each_set() -> None:
    config = Config(
        eval_prompt_data=("a", "a.jsonl", "b", "b.jsonl"),
        n_samples_per_eval_prompt=3,
        eval_temperature=0.0,
        eval_max_response_len=5,
        rm_type="math",
        custom_rm_path="x.y",
    )
    first, second = eval_sets(config)
    assert (first.name, second.path, first.n_samples_per_eval_prompt) == ("a", "b.jsonl", 3)
    assert (first.temperature, first.max_response_len, first.custom_rm_path) == (0.0, 5, "x.y")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "it needs the key 'eval'"),
        ("eval: {datasets: []}", "a list of at least one"),
        ("eval: {sets: []}", "eval has no key 'sets'"),
        ("eval: {datasets: [{name: a}]}", r"data set 1: it needs name and path, it has the keys name"),
        (
            "eval: {datasets: [{name: a, path: b, temprature: 1}]}",
            "there is no key 'temprature'; the nearest",
        ),
        ("eval: {datasets: [{name: a, path: b, top_p: high}]}", "top_p is 'high', a str; it must be a float"),
        ("eval: {datasets: [{name: a, path: b, top_k: true}]}", "top_k is True, a bool; it must be a int"),
        ("eval: {datasets: [{name: a, path: b, top_p: 1.5}]}", "top_p is 1.5; it lies between"),
        ("eval: {defaults: {top_p: 0}, datasets: [{name: a, path: b}]}", "defaults: top_p is 0"),
        ("eval: {datasets: [{name: a, path: b}, {name: a, path: c}]}", "two data sets are called 'a'"),
        ("eval: {datasets: [", "is no YAML"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        eval_sets(config_with(text, tmp_path))


def test_scores_without_samples_take_every_reward_as_a_prompt() -> None:
    scores = eval_scores("x", {"rewards": [1.0, 0.0], "truncated": [True, False]}, {"eval/x/extra": 3.0, "eval/y": 1.0})
    assert isinstance(scores, EvalScores)
    assert (scores.mean.value, scores.truncated_ratio, scores.samples, scores.pass_at) == (0.5, 0.5, 2, {})
    assert scores.all_metrics()["eval/x/extra"] == 3.0
    assert "eval/y" not in scores.all_metrics()
