"""The stream of prompt groups: epochs, shuffling, a buffer for unfinished groups, and a state that resumes exactly."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import Any, Protocol

from slime.data.buffer import BufferFilter, Group, GroupBuffer, GroupBufferError, oldest_first
from slime.data.prompts import PromptDataset
from slime.data.sample import Sample, SampleError

STATE_VERSION = 1


class ResumeError(ValueError):
    """A saved cursor does not fit this run; the message says what differs."""


class DataSource(Protocol):
    """Where a run's samples come from: `PromptSource`, or a class of the user's (``--data-source-path``)."""

    def get_groups(self, count: int) -> list[Group]:
        """`count` groups to generate."""
        ...

    def add_groups(self, groups: Iterable[Group]) -> None:
        """Take groups back that are not finished; `get_groups` returns them again."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON values from which `load_state_dict` continues; the checkpoint carries them."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        ...


class PromptSource:
    """Endless groups of `n_samples_per_prompt` fresh samples; epoch ``e`` is shuffled by the seed ``rollout_seed + e``.

    The order of an epoch depends on the seed and the epoch alone, so a cursor of a few integers resumes it exactly.

    Attributes:
        epoch: passes over the data that are complete.
        offset: prompts taken from the current pass.
        buffer: groups that came back.
    """

    def __init__(
        self,
        dataset: PromptDataset,
        n_samples_per_prompt: int,
        rollout_seed: int = 42,
        rollout_shuffle: bool = False,
        buffer_filter: BufferFilter = oldest_first,
    ) -> None:
        if n_samples_per_prompt < 1:
            raise ValueError(f"n_samples_per_prompt is {n_samples_per_prompt}; it must be at least 1.")
        self.dataset = dataset
        self.n_samples_per_prompt = n_samples_per_prompt
        self.rollout_seed = rollout_seed
        self.rollout_shuffle = rollout_shuffle
        self.epoch = 0
        self.offset = 0
        self.group_index = 0
        self.sample_index = 0
        self.buffer = GroupBuffer(n_samples_per_prompt, buffer_filter)
        self._order = self._shuffled(0)

    def get_groups(self, count: int) -> list[Group]:
        """The next `count` groups: waiting ones first, as the buffer's filter chooses, then fresh ones.

        A group is `n_samples_per_prompt` samples of one prompt, each with its own `index` and `rollout_id`.

        Raises:
            GroupBufferError: the buffer's filter breaks its contract.
        """
        groups = self.buffer.take(count)
        while len(groups) < count:
            groups.append(self._fresh())
        return groups

    def add_groups(self, groups: Iterable[Group]) -> None:
        """Put groups back, unfinished or left over; `get_groups` returns them before fresh ones, oldest first.

        Raises:
            GroupBufferError: a group of the wrong size, or one that waits already; nothing is added then.
        """
        self.buffer.put(groups)

    def state_dict(self) -> dict[str, Any]:
        """Cursor and buffer as JSON values, with what they belong to (data set, seed, group size).

        The trainer's checkpoint carries it, so that weights and data always resume together.
        """
        return {
            "version": STATE_VERSION,
            "epoch": self.epoch,
            "offset": self.offset,
            "group_index": self.group_index,
            "sample_index": self.sample_index,
            "buffer": [[sample.to_dict() for sample in group] for group in self.buffer.groups],
            **self._identity(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            ResumeError: if data set, seed, shuffling or group size differ, since the cursor would mean other prompts;
                also for a damaged state. The source is unchanged then.
        """
        if state.get("version") != STATE_VERSION:
            raise ResumeError(
                f"the data state has version {state.get('version')!r}; this release reads {STATE_VERSION}."
            )
        for key, own in self._identity().items():
            if state.get(key) != own:
                raise ResumeError(
                    f"the data state was saved with {key} {state.get(key)!r}, this run has {own!r}; a cursor means the "
                    "same prompts only with the same data. Restore the value, or start without the saved data state."
                )
        cursor = {key: state.get(key) for key in ("epoch", "offset", "group_index", "sample_index")}
        for key, value in cursor.items():
            if type(value) is not int or value < 0:
                raise ResumeError(f"the data state's {key} is {value!r}; it must be an integer, at least 0.")
        if state["offset"] > len(self.dataset):
            raise ResumeError(
                f"the data state's offset is {state['offset']}, the data set has {len(self.dataset)} prompts."
            )
        try:
            self.buffer.restore(saved_groups(state.get("buffer")))
        except GroupBufferError as error:
            raise ResumeError(f"the data state's buffer is damaged: {error}") from error
        self.epoch, self.offset = state["epoch"], state["offset"]
        self.group_index, self.sample_index = state["group_index"], state["sample_index"]
        self._order = self._shuffled(self.epoch)

    def _identity(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset.fingerprint,
            "n_samples_per_prompt": self.n_samples_per_prompt,
            "rollout_seed": self.rollout_seed,
            "rollout_shuffle": self.rollout_shuffle,
        }

    def _shuffled(self, epoch: int) -> list[int]:
        order = list(range(len(self.dataset)))
        if self.rollout_shuffle:
            random.Random(self.rollout_seed + epoch).shuffle(order)
        return order

    def _fresh(self) -> Group:
        if self.offset >= len(self._order):
            self.epoch, self.offset = self.epoch + 1, 0
            self._order = self._shuffled(self.epoch)
        prompt = self.dataset.prompts[self._order[self.offset]]
        self.offset += 1
        group = [
            Sample(
                group_index=self.group_index,
                index=self.sample_index + k,
                rollout_id=self.sample_index + k,
                prompt=prompt.text,
                tokens=list(prompt.tokens),
                prompt_length=len(prompt.tokens),
                label=prompt.label,
                # Deep, because hooks write into it: samples of a prompt must not see each other's notes.
                metadata=copy.deepcopy(prompt.metadata),
            )
            for k in range(self.n_samples_per_prompt)
        ]
        self.group_index += 1
        self.sample_index += self.n_samples_per_prompt
        return group


def saved_groups(saved: Any) -> list[Group]:
    """Groups that were saved with `Sample.to_dict`.

    Raises:
        ResumeError: they are damaged.
    """
    if not isinstance(saved, list) or not all(isinstance(group, list) for group in saved):
        raise ResumeError("the data state has no buffer; it is damaged.")
    try:
        return [[Sample.from_dict(values) for values in group] for group in saved]
    except (SampleError, AttributeError) as error:
        raise ResumeError(f"the data state's buffer is damaged: {error}") from error
