"""`Sample`: one prompt with one generated answer. Its contract is in `slime.data.contract`."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slime.data.arrays import from_json_array, to_json_array
from slime.data.contract import check_sample
from slime.data.sample_types import PrefixCacheInfo, SampleError, SpecInfo, Status

__all__ = ["PrefixCacheInfo", "Sample", "SampleError", "SpecInfo", "Status"]

Messages = list[dict[str, Any]]


@dataclass(slots=True)
class Sample:
    """One trajectory.

    Lengths are in tokens. `tokens` holds prompt then response, so ``len(tokens) == prompt_length + response_length``.
    Everything after the first prompt is the response: what tools and users say later counts, and is masked. R below is
    `response_length`.

    Attributes:
        group_index: number of the prompt in the run; samples of one prompt share it.
        index: number of the sample in the run, assigned by the data source, never reused.
        rollout_id: trajectory that the loss averages over; siblings cut from one trajectory share it.
        prompt: text after the chat template, or the messages themselves.
        tokens: ids of prompt and response.
        prompt_length: tokens of the first prompt.
        apply_chat_template_kwargs: arguments of the chat template for this sample, above those of the run.
        response: text of the response.
        response_length: R.
        label: gold answer as the data file gives it.
        reward: number that trains, or a mapping from which ``--reward-key`` chooses; None until graded.
        verdict: the grader's kind ("correct", "wrong", "no-answer", "grader-error"); None until graded.
        verdict_reason: the grader's reason, one line.
        loss_mask: R entries, 1 = the token trains, 0 = it does not; None means all ones.
        weight_versions: one entry for each generation call that produced part of the response.
        rollout_log_probs: R natural-log probabilities of the sampler at its sampling temperature, 0.0 where the mask
            is 0 because the model did not choose the token.
        teacher_log_probs: R natural-log probabilities of a teacher, for distillation.
        rollout_top_p_token_ids: ids that nucleus sampling kept, of all response tokens in a row; token t has
            ``ids[offsets[t]:offsets[t + 1]]``.
        rollout_top_p_token_offsets: int [R + 1], the first 0.
        rollout_topk_token_ids: int [R, k], the sampler's likeliest ids.
        rollout_topk_log_probs: float [R, k], their log-probabilities.
        rollout_routed_experts: int [len(tokens) - 1, layers, top-k], experts that the sampler's router chose.
        status: pending, completed, truncated, aborted or failed.
        remove_sample: counted in reward statistics, excluded from the loss.
        metadata: the row's, and what hooks add.
        generate_function_path: import path of a generation function for this sample alone.
        custom_rm_path: import path of a grading function for this sample alone.
        train_metadata: passed on to the trainer untouched.
        session_id: key by which a router keeps the calls of one trajectory on one engine.
        non_generation_time: seconds spent in tools and environments.
        spec_info: counters of speculative decoding.
        prefix_cache_info: counters of the prefix cache.
    """

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | Messages = ""
    tokens: list[int] = field(default_factory=list)
    prompt_length: int = 0
    apply_chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: float | dict[str, Any] | None = None
    verdict: str | None = None
    verdict_reason: str = ""
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    teacher_log_probs: list[float] | None = None
    rollout_top_p_token_ids: npt.NDArray[np.int32] | None = None
    rollout_top_p_token_offsets: npt.NDArray[np.int32] | None = None
    rollout_topk_token_ids: npt.NDArray[np.int32] | None = None
    rollout_topk_log_probs: npt.NDArray[np.float32] | None = None
    rollout_routed_experts: npt.NDArray[np.integer[Any]] | None = None
    status: Status = Status.PENDING
    remove_sample: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    generate_function_path: str | None = None
    custom_rm_path: str | None = None
    train_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: SpecInfo = field(default_factory=SpecInfo)
    prefix_cache_info: PrefixCacheInfo = field(default_factory=PrefixCacheInfo)

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

    def reward_value(self, reward_key: str | None = None) -> float:
        """The number that trains: `reward`, or its entry `reward_key` (``--reward-key``) when it is a mapping.

        Raises:
            SampleError: not graded; a mapping without a key or without that key; no number.
        """
        reward = self.reward
        if isinstance(reward, Mapping):
            keys = ", ".join(map(repr, reward)) or "nothing"
            if reward_key is None:
                raise SampleError(
                    f"{self.name()}: reward is a mapping of {keys}; --reward-key names the one that trains."
                )
            if reward_key not in reward:
                raise SampleError(f"{self.name()}: reward has no {reward_key!r} (--reward-key), it has {keys}.")
            reward = reward[reward_key]
        if not isinstance(reward, (int, float, np.floating, np.integer)):
            raise SampleError(f"{self.name()}: reward is {reward!r}; a graded sample carries a finite number.")
        return float(reward)

    def check(self, graded: bool = True, generated: bool = True, reward_key: str | None = None) -> None:
        """Refuse a sample that breaks its contract; called at every door (after generation, before batching).

        Args:
            graded: also require a finite reward.
            generated: a model sampled the response, so weight versions must be there. False for supervised data.
            reward_key: entry of a reward that is a mapping, ``--reward-key``.

        Raises:
            SampleError: with the sample's name, the field and the numbers that disagree.
        """
        check_sample(self, graded, generated, reward_key)

    def append_response_tokens(
        self,
        tokens: Sequence[int],
        log_probs: Sequence[float] | None = None,
        *,
        trainable: bool = True,
        text: str = "",
        weight_version: str | None = None,
    ) -> None:
        """Add tokens to the response: those that the model sampled, or those that a tool, user or template put there.

        Args:
            tokens: ids.
            log_probs: the sampler's, one for each sampled token; none for others, for which 0.0 is stored.
            trainable: the model sampled these tokens. False masks them.
            text: their text.
            weight_version: of the weights that sampled them.

        Raises:
            SampleError: lengths differ, log-probs for tokens that were not sampled, sampled tokens without log-probs,
                or sampled tokens after a response that has none.
        """
        self._check_appended(tokens, log_probs, trainable)
        earlier = self.response_length
        if self.loss_mask is None and not trainable:
            self.loss_mask = [1] * earlier
        if self.loss_mask is not None:
            self.loss_mask = [*self.loss_mask, *([int(trainable)] * len(tokens))]
        if log_probs is not None or self.rollout_log_probs is not None or earlier == 0:
            added = [0.0] * len(tokens) if log_probs is None else list(log_probs)
            self.rollout_log_probs = [*(self.rollout_log_probs or []), *added]
        self.tokens = [*self.tokens, *tokens]
        self.response += text
        self.response_length += len(tokens)
        if weight_version is not None:
            self.weight_versions = [*self.weight_versions, weight_version]

    def _check_appended(self, tokens: Sequence[int], log_probs: Sequence[float] | None, trainable: bool) -> None:
        if not trainable and log_probs is not None:
            raise SampleError(
                f"{self.name()}: {len(tokens)} tokens that the model did not sample come with {len(log_probs)} "
                "log-probs; such tokens have none, and 0.0 is stored."
            )
        if trainable and (log_probs is None or len(log_probs) != len(tokens)):
            found = "no" if log_probs is None else str(len(log_probs))
            raise SampleError(
                f"{self.name()}: {len(tokens)} sampled tokens come with {found} log-probs; training needs one for each."
            )
        if trainable and self.response_length and self.rollout_log_probs is None:
            raise SampleError(
                f"{self.name()}: the response has {self.response_length} tokens without rollout_log_probs; "
                "sampled tokens cannot follow them, because each needs its own."
            )

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values (`label` and `metadata` as given); `from_dict` restores them."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = to_json_array(value)
        return {
            **values,
            "status": self.status.value,
            "spec_info": dataclasses.asdict(self.spec_info),
            "prefix_cache_info": dataclasses.asdict(self.prefix_cache_info),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Sample:
        """Inverse of `to_dict`.

        Raises:
            SampleError: for an unknown key (with the nearest known one), an unknown status, or a damaged array.
        """
        known = [item.name for item in dataclasses.fields(cls)]
        for key in values:
            if key not in known:
                raise SampleError(f"Sample has no field {key!r}{_hint(key, known)}.")
        status = values.get("status", Status.PENDING)
        if status not in [member.value for member in Status]:
            legal = ", ".join(member.value for member in Status)
            raise SampleError(f"status {status!r} is unknown; it must be one of: {legal}.")
        restored = {**values, "status": Status(status)}
        try:
            for name in ARRAYS & restored.keys():
                if restored[name] is not None:
                    restored[name] = from_json_array(restored[name])
            for name, kind in (("spec_info", SpecInfo), ("prefix_cache_info", PrefixCacheInfo)):
                if name in restored:
                    restored[name] = kind(**restored[name])
        except (TypeError, ValueError) as error:
            raise SampleError(f"the saved sample {values.get('index')} is damaged: {error}.") from error
        return cls(**restored)


ARRAYS = frozenset(
    {
        "rollout_top_p_token_ids",
        "rollout_top_p_token_offsets",
        "rollout_topk_token_ids",
        "rollout_topk_log_probs",
        "rollout_routed_experts",
    }
)
"""Fields that hold a NumPy array."""


def _hint(key: str, known: list[str]) -> str:
    if key.startswith("multimodal"):
        return "; images, audio and video are not run yet"
    near = difflib.get_close_matches(key, known, n=1)
    return f"; the nearest is {near[0]!r}" if near else f"; known: {', '.join(known)}"
