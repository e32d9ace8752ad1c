"""The stream of prompt groups: epochs, shuffling, a buffer for unfinished groups, and a state that resumes exactly."""

from __future__ import annotations

import random
from typing import Any

from slime.data.prompts import PromptDataset
from slime.data.sample import Sample

STATE_VERSION = 1


class ResumeError(ValueError):
    """A saved cursor does not fit this run; the message says what differs."""


class PromptSource:
    """Endless groups of `n_samples_per_prompt` fresh samples; epoch ``e`` is shuffled by the seed ``rollout_seed + e``.

    The order of an epoch depends on the seed and the epoch alone, so a cursor of a few integers resumes it exactly.
    """

    def __init__(
        self, dataset: PromptDataset, n_samples_per_prompt: int, rollout_seed: int = 42, rollout_shuffle: bool = False
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
        self.buffer: list[list[Sample]] = []
        self._order = self._shuffled(0)

    def get_groups(self, count: int) -> list[list[Sample]]:
        """The next `count` groups: buffered ones first, in the order they came, then fresh ones.

        A group is `n_samples_per_prompt` samples of one prompt, each with its own `index` and `rollout_id`.
        """
        groups, self.buffer = self.buffer[:count], self.buffer[count:]
        while len(groups) < count:
            groups.append(self._fresh())
        return groups

    def add_groups(self, groups: list[list[Sample]]) -> None:
        """Put groups back (aborted or left over); `get_groups` returns them before fresh ones.

        Raises:
            ValueError: for a group of the wrong size; a short group would shift its advantages.
        """
        for group in groups:
            if len(group) != self.n_samples_per_prompt:
                raise ValueError(
                    f"group {group[0].group_index if group else '?'} has {len(group)} samples; "
                    f"a group holds {self.n_samples_per_prompt} (--n-samples-per-prompt)."
                )
        self.buffer.extend(groups)

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
            "buffer": [[sample.to_dict() for sample in group] for group in self.buffer],
            **self._identity(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            ResumeError: if data set, seed, shuffling or group size differ, since the cursor would mean other prompts.
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
        if not isinstance(state.get("buffer"), list):
            raise ResumeError("the data state has no buffer; it is damaged.")
        self.buffer = [[Sample.from_dict(values) for values in group] for group in state["buffer"]]
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

    def _fresh(self) -> list[Sample]:
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
                metadata=dict(prompt.metadata),
            )
            for k in range(self.n_samples_per_prompt)
        ]
        self.group_index += 1
        self.sample_index += self.n_samples_per_prompt
        return group
