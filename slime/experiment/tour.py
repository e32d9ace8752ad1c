"""The tour of one GRPO round: a fixed example whose numbers come from the code that training uses.

``recipes/experiment/tour.yaml`` has the prompt, the answers with their rewards, and sentences with slots;
``slime.algorithms.groups`` has the arithmetic. Nothing here touches an experiment: "use this start" is the preset that
``start`` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from slime.algorithms.groups import group_advantages, group_statistics
from slime.experiment.expression import Value
from slime.experiment.facts_schema import FactModel, Words
from slime.experiment.texts import Text, both, fill, slots_of

STAGES = ("prompt", "answers", "verifier", "grpo", "sync")
SLOTS = (
    "label", "count", "correct", "wrong", "mean", "variance", "std", "up", "down", "equal", "centred_up",
    "centred_down",
)  # fmt: skip
"""What the sentences may ask for."""


class TourAnswer(FactModel):
    """One answer as the model wrote it, the grader's reward and its reason."""

    text: str
    reward: Literal[0, 1]
    reason: Words


class TourStage(FactModel):
    """One stage: its title and its sentence with slots."""

    id: Literal["prompt", "answers", "verifier", "grpo", "sync"]
    title: Words
    text: Words


class TourFile(FactModel):
    """``tour.yaml``."""

    start: str
    label: str
    prompt: Words
    answers: Annotated[tuple[TourAnswer, ...], Field(strict=False, min_length=2)]
    stages: Annotated[tuple[TourStage, ...], Field(strict=False)]
    note: Words

    @model_validator(mode="after")
    def _is_a_round(self) -> TourFile:
        if tuple(stage.id for stage in self.stages) != STAGES:
            raise ValueError(f"the stages are {', '.join(STAGES)}, in this order")
        if len({answer.reward for answer in self.answers}) != 2:
            raise ValueError("the answers need both rewards, or there is no advantage to explain")
        for stage in self.stages:
            unknown = {*slots_of(stage.text.zh), *slots_of(stage.text.en)} - set(SLOTS)
            if unknown:
                raise ValueError(f"{stage.id}: unknown slots {', '.join(sorted(unknown))}; known: {', '.join(SLOTS)}")
            if set(slots_of(stage.text.zh)) != set(slots_of(stage.text.en)):
                raise ValueError(f"{stage.id}: zh and en use different slots")
        return self


@dataclass(frozen=True)
class Answer:
    """One answer with its reward and its advantage (signed, four decimals)."""

    text: str
    reward: int
    reason: Text
    advantage: str


@dataclass(frozen=True)
class Stage:
    """One stage with its sentence filled in."""

    id: str
    title: Text
    text: Text


@dataclass(frozen=True)
class Tour:
    """The whole tour. ``numbers`` are decimal texts as the sentences show them."""

    start: str
    label: str
    prompt: Text
    answers: list[Answer]
    stages: list[Stage]
    note: Text
    numbers: dict[str, str]


def tour(data: TourFile) -> Tour:
    """Compute the numbers and fill the sentences."""
    rewards = [answer.reward for answer in data.answers]
    one_group = [0] * len(rewards)
    advantages = group_advantages(rewards, one_group)
    centred = group_advantages(rewards, one_group, normalize_std=False)
    right, wrong = rewards.index(1), rewards.index(0)
    statistics = group_statistics(rewards)
    numbers = {
        "label": data.label,
        "count": str(len(rewards)),
        "correct": str(rewards.count(1)),
        "wrong": str(rewards.count(0)),
        "mean": format(statistics.mean, "g"),
        "variance": str(_sample_variance(rewards)),
        "std": format(statistics.std, ".4f"),
        "up": _signed(advantages[right], 2),
        "down": _signed(advantages[wrong], 2),
        "equal": format(group_advantages([1] * len(rewards), one_group)[0], "g"),
        "centred_up": _signed(centred[right], None),
        "centred_down": _signed(centred[wrong], None),
    }
    slots: dict[str, Value | Text] = {**numbers}
    return Tour(
        data.start,
        data.label,
        both(data.prompt),
        [
            Answer(answer.text, answer.reward, both(answer.reason), _signed(advantage, 4))
            for answer, advantage in zip(data.answers, advantages, strict=True)
        ],
        [Stage(stage.id, both(stage.title), fill(stage.text, slots)) for stage in data.stages],
        both(data.note),
        numbers,
    )


def _sample_variance(rewards: list[Any]) -> Fraction:
    """The square of the standard deviation as a fraction, for the sentence that shows where it comes from."""
    mean = Fraction(sum(rewards), len(rewards))
    squares: Fraction = sum(((reward - mean) ** 2 for reward in rewards), Fraction(0))
    return squares / (len(rewards) - 1)


def _signed(value: float, digits: int | None) -> str:
    """With its sign; the minus is the typographic one."""
    return format(value, "+g" if digits is None else f"+.{digits}f").replace("-", "−")
