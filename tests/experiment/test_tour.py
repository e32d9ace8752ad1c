"""The tour of one round: its numbers by hand, its rewards from the real grader, its mistakes by name."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from slime.data.batch import BatchOptions, build_train_batches
from slime.data.sample import Sample, Status
from slime.data.schedule import ScheduleOptions
from slime.experiment import Catalog
from slime.experiment.tour import TourFile
from slime.rewards import grade


def test_numbers(catalog: Catalog) -> None:
    numbers = catalog.tour().numbers
    assert (numbers["mean"], numbers["variance"], numbers["std"]) == ("0.5", "2/7", "0.5345")
    assert math.sqrt(2 / 7) == pytest.approx(0.5345, abs=5e-5)
    assert (numbers["up"], numbers["down"]) == ("+0.94", "−0.94")
    assert (numbers["equal"], numbers["centred_up"], numbers["centred_down"]) == ("0", "+0.5", "−0.5")
    assert [answer.reward for answer in catalog.tour().answers] == [1, 0, 1, 1, 0, 0, 1, 0]
    assert {(answer.reward, answer.advantage) for answer in catalog.tour().answers} == {(1, "+0.9354"), (0, "−0.9354")}


def test_rewards_are_those_of_the_grader(catalog: Catalog) -> None:
    tour = catalog.tour()
    recipe = catalog.facts.launch[str(catalog.preset(tour.start)["model"])]
    assert len(tour.answers) == recipe.batch.samples
    for answer in tour.answers:
        assert grade(recipe.reward, answer.text, tour.label).score == answer.reward, answer.text


def test_advantages_are_those_of_a_training_batch(catalog: Catalog) -> None:
    answers = catalog.tour().answers
    group = [
        Sample(
            group_index=0, index=index, rollout_id=index, tokens=[1, 2], prompt_length=1, response_length=1,
            reward=float(answer.reward), status=Status.COMPLETED, weight_versions=["1"], rollout_log_probs=[-1.0],
        )
        for index, answer in enumerate(answers)
    ]  # fmt: skip
    (batch,) = build_train_batches([group], BatchOptions(ScheduleOptions(1, 100, 100, micro_batch_size=1)), 0)
    found = {one.sample_index: format(one.advantage, "+.4f").replace("-", "−") for one in batch.sequences}
    assert [found[index] for index in range(len(answers))] == [answer.advantage for answer in answers]


def test_sentences_are_filled_and_travel_to_the_page(catalog: Catalog) -> None:
    tour = catalog.tour()
    assert [stage.id for stage in tour.stages] == ["prompt", "answers", "verifier", "grpo", "sync"]
    for stage in tour.stages:
        assert "{label" not in stage.text.zh + stage.text.en
    grpo = tour.stages[3].text
    for part in ("0.5", "√(2/7) ≈ 0.5345", "+0.94", "−0.94"):
        assert part in grpo.zh
        assert part in grpo.en
    page = catalog.to_json()["tour"]
    assert page["numbers"] == tour.numbers
    assert page["stages"][3]["text"] == {"zh": grpo.zh, "en": grpo.en}


def test_mistakes_are_named(catalog: Catalog) -> None:
    good = catalog.tables.tour.model_dump()

    def refused(**changes: Any) -> str:
        with pytest.raises(ValidationError) as error:
            TourFile.model_validate({**good, **changes})
        return str(error.value)

    stages = [dict(stage) for stage in good["stages"]]
    assert "the stages are prompt, answers, verifier, grpo, sync" in refused(stages=stages[1:])
    stages[0] = {**stages[0], "text": {"zh": "{labl}", "en": "{labl}"}}
    assert "prompt: unknown slots labl" in refused(stages=stages)
    stages[0] = {**stages[0], "text": {"zh": "{label}", "en": "x"}}
    assert "prompt: zh and en use different slots" in refused(stages=stages)
    assert "both rewards" in refused(answers=[{**answer, "reward": 1} for answer in good["answers"]])
