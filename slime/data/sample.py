"""`Sample`: one prompt with one generated answer, and the contract that it must meet before it may train."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math
from dataclasses import dataclass, field
from typing import Any

# A sampler's float32 log-softmax may round a certain token to a hair above zero.
LOG_PROB_ROUNDING = 1e-4


class Status(enum.StrEnum):
    """Where a sample stands. `str` values are what `to_dict` writes."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


class SampleError(ValueError):
    """A sample breaks its contract; the message names the sample, the field and the numbers."""


@dataclass(slots=True)
class Sample:
    """One trajectory.

    Lengths are in tokens. `tokens` holds prompt then response, so ``len(tokens) == prompt_length + response_length``.
    `loss_mask` and `rollout_log_probs` cover the response alone: one entry for each of its `response_length` tokens.

    Attributes:
        group_index: number of the prompt in the run; samples of one prompt share it.
        index: number of the sample in the run, assigned by the data source, never reused.
        rollout_id: trajectory that the loss averages over; siblings cut from one trajectory share it.
        prompt: text after the chat template.
        label: gold answer as the data file gives it.
        reward: number that trains; None until graded.
        verdict: the grader's kind ("correct", "wrong", "no-answer", "grader-error"); None until graded.
        verdict_reason: the grader's reason, one line.
        loss_mask: 1 = the token trains, 0 = it does not; None means all ones.
        rollout_log_probs: the sampler's natural-log probabilities at its sampling temperature, 0.0 where the mask is 0.
        weight_versions: one entry for each generation call that produced part of the response.
        remove_sample: counted in reward statistics, excluded from the loss.
    """

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str = ""
    tokens: list[int] = field(default_factory=list)
    prompt_length: int = 0
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: float | None = None
    verdict: str | None = None
    verdict_reason: str = ""
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    weight_versions: list[str] = field(default_factory=list)
    status: Status = Status.PENDING
    remove_sample: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    def name(self) -> str:
        """Short name for messages, e.g. ``sample 17 (group 2)``."""
        return f"sample {self.index} (group {self.group_index})"

    def mask(self) -> list[int]:
        """Loss mask of the response, all ones where none was given, all zeros for a removed sample."""
        if self.remove_sample:
            return [0] * self.response_length
        return [1] * self.response_length if self.loss_mask is None else self.loss_mask

    def effective_response_length(self) -> int:
        """Number of response tokens that train."""
        return sum(self.mask())

    def check(self, graded: bool = True) -> None:
        """Refuse a sample that breaks the contract above; called at every door (after generation, before batching).

        Args:
            graded: also require a finite reward.

        Raises:
            SampleError: with the sample's name, the field and the numbers that disagree.
        """
        self._check_status()
        self._check_lengths()
        self._check_tokens()
        self._check_mask_and_log_probs()
        if graded and (self.reward is None or not math.isfinite(self.reward)):
            self._refuse("reward", f"is {self.reward}", "a graded sample carries a finite number; 0.0 means wrong")

    def _refuse(self, field_name: str, found: str, rule: str) -> None:
        raise SampleError(f"{self.name()}: {field_name} {found}; {rule}.")

    def _check_status(self) -> None:
        if not isinstance(self.status, Status):
            legal = ", ".join(status.value for status in Status)
            self._refuse("status", f"is {self.status!r}", f"it must be a Status ({legal})")
        if self.status not in (Status.COMPLETED, Status.TRUNCATED):
            self._refuse("status", f"is {self.status.value}", "only completed and truncated samples may train")
        if self.response_length and not self.weight_versions:
            self._refuse("weight_versions", "is empty", "each generation call records its weight version")

    def _check_lengths(self) -> None:
        if self.prompt_length < 1:
            self._refuse("prompt_length", f"is {self.prompt_length}", "a response token needs a token before it")
        if self.response_length < 1:
            self._refuse("response_length", f"is {self.response_length}", "nothing to train on")
        if len(self.tokens) != self.prompt_length + self.response_length:
            self._refuse(
                "tokens",
                f"has {len(self.tokens)} ids",
                f"prompt_length {self.prompt_length} + response_length {self.response_length} "
                f"= {self.prompt_length + self.response_length}",
            )

    def _check_tokens(self) -> None:
        if self.tokens and (min(self.tokens) < 0 or not all(type(token) is int for token in self.tokens)):
            bad = next(token for token in self.tokens if type(token) is not int or token < 0)
            self._refuse("tokens", f"contains {bad!r}", "ids are non-negative integers")

    def _check_mask_and_log_probs(self) -> None:
        if self.loss_mask is not None:
            if len(self.loss_mask) != self.response_length:
                self._refuse(
                    "loss_mask",
                    f"has {len(self.loss_mask)} entries for {self.response_length} response tokens",
                    "it covers the response alone, never the prompt",
                )
            if not set(self.loss_mask) <= {0, 1}:
                bad = next(value for value in self.loss_mask if value not in (0, 1))
                self._refuse("loss_mask", f"contains {bad!r}", "each entry is 0 or 1")
        if self.rollout_log_probs is None:
            return
        if len(self.rollout_log_probs) != self.response_length:
            self._refuse(
                "rollout_log_probs",
                f"has {len(self.rollout_log_probs)} entries for {self.response_length} response tokens",
                "it covers the response alone, never the prompt",
            )
        for position, value in enumerate(self.rollout_log_probs):
            if not math.isfinite(value) or value > LOG_PROB_ROUNDING:
                self._refuse(
                    f"rollout_log_probs[{position}]", f"is {value}", "a log-probability is finite and not above 0"
                )

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values (`label` and `metadata` as given); `from_dict` restores them."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {**values, "status": self.status.value}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Sample:
        """Inverse of `to_dict`.

        Raises:
            SampleError: for an unknown key (with the nearest known one) or an unknown status.
        """
        known = [item.name for item in dataclasses.fields(cls)]
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; the nearest is {near[0]!r}" if near else f"; known: {', '.join(known)}"
                raise SampleError(f"Sample has no field {key!r}{hint}.")
        status = values.get("status", Status.PENDING)
        if status not in [member.value for member in Status]:
            legal = ", ".join(member.value for member in Status)
            raise SampleError(f"status {status!r} is unknown; it must be one of: {legal}.")
        return cls(**{**values, "status": Status(status)})
