"""What each hook must return. A check gives back what to use, or raises `ResultError` with what was wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from slime.data.sample import Sample, SampleError, Status


class ResultError(ValueError):
    """A hook's result is unusable; the text continues "it returned ..."."""


def shown(value: Any) -> str:
    """A value for a message, short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A check that gives back the result as it is."""

    def look(result: Any) -> Any:
        check(result)
        return result

    return look


def nothing(result: Any) -> None:
    """For hooks that work in place: a result would be lost without a word."""
    if result is not None:
        raise ResultError(f"{shown(result)}; it changes its arguments in place, and a result would be lost.")


def truth(result: Any) -> bool:
    """True or False, nothing else: an accidental None would read as False."""
    if not isinstance(result, bool):
        raise ResultError(f"{shown(result)}; it must be True or False.")
    return result


def trajectory(given: Sample) -> Callable[[Any], list[Sample]]:
    """For a generation hook: the sample, or the pieces of one trajectory. Gives back a list."""
    group_index, rollout_id = given.group_index, given.rollout_id  # before the hook can change them

    def check(result: Any) -> list[Sample]:
        pieces = result if isinstance(result, list) else [result]
        if not pieces:
            raise ResultError("an empty list; a trajectory has at least one sample.")
        for piece in pieces:
            if not isinstance(piece, Sample):
                hint = "; return the sample after changing it" if piece is None else ""
                raise ResultError(f"{shown(piece)}, which is no Sample{hint}.")
            if piece.group_index != group_index:
                raise ResultError(
                    f"a sample of group {piece.group_index}; pieces keep their group's index {group_index}."
                )
            if piece.status is Status.PENDING:
                raise ResultError("a sample whose status is still pending; set Status.COMPLETED or TRUNCATED.")
            if piece.status in (Status.COMPLETED, Status.TRUNCATED):
                try:
                    piece.check(graded=False)
                except SampleError as error:
                    raise ResultError(f"a sample that breaks its contract: {error}") from error
        ids = {rollout_id if piece.rollout_id is None else piece.rollout_id for piece in pieces}
        if len(ids) > 1:
            raise ResultError(
                f"pieces with the rollout ids {', '.join(map(str, ids))}; pieces of one trajectory share one."
            )
        (shared,) = ids
        for piece in pieces:
            piece.rollout_id = shared
        return pieces

    return check


def same_or_sample(given: Sample) -> Callable[[Any], Sample]:
    """For a sample hook: None keeps the sample."""

    def check(result: Any) -> Sample:
        if result is None:
            return given
        if not isinstance(result, Sample):
            raise ResultError(f"{shown(result)}; it must be the sample, or None to keep it.")
        return result

    return check


def reward(reward_key: str | None) -> Callable[[Any], float]:
    """For a reward hook: a finite number, or a mapping that has a finite number under `reward_key`."""

    def check(result: Any) -> float:
        value = result
        if isinstance(result, dict):
            if reward_key is None:
                raise ResultError(f"a dict with {_keys(result)}; --reward-key must say which of them is the reward.")
            if reward_key not in result:
                raise ResultError(f"a dict with {_keys(result)}; --reward-key {reward_key} is not among them.")
            value = result[reward_key]
        elif reward_key is not None:
            raise ResultError(f"{shown(result)}; --reward-key {reward_key} chooses from a dict.")
        if not isinstance(value, Real):
            hint = "; call .item()" if hasattr(value, "item") else ""
            raise ResultError(f"{shown(value)}; a reward is a number{hint}.")
        if not math.isfinite(value):
            raise ResultError(f"{value}; a reward is finite.")
        return float(value)

    return check


def rewards(count: int, reward_key: str | None) -> Callable[[Any], list[float]]:
    """For a reward hook of a group: `count` rewards."""

    def check(result: Any) -> list[float]:
        return [reward(reward_key)(value) for value in _list(result, count, "reward")]

    return check


def groups(result: Any) -> list[list[Sample]]:
    """Lists of samples, one for each prompt."""
    if not isinstance(result, list) or not all(isinstance(group, list) for group in result):
        raise ResultError(f"{shown(result)}; it must be a list of groups, each a list of Sample.")
    for group in result:
        for sample in group:
            if not isinstance(sample, Sample):
                raise ResultError(f"a group that holds {shown(sample)}, which is no Sample.")
    return result


def taken(limit: int) -> Callable[[Any], list[list[Sample]]]:
    """For a buffer filter: at most `limit` groups."""

    def check(result: Any) -> list[list[Sample]]:
        found = groups(result)
        if len(found) > limit:
            raise ResultError(f"{len(found)} groups; {limit} were asked for.")
        return found

    return check


def post_processed(count: int) -> Callable[[Any], tuple[list[float], list[float]]]:
    """For a reward post-processor: raw rewards and advantages, `count` of each."""

    def check(result: Any) -> tuple[list[float], list[float]]:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ResultError(f"{shown(result)}; it must be a pair (raw rewards, advantages).")
        pair = [[reward(None)(value) for value in _list(_plain(part), count, "number")] for part in result]
        return pair[0], pair[1]

    return check


REQUIRED_KEYS = (
    "tokens", "response_lengths", "rewards", "raw_reward", "truncated", "sample_indices", "loss_masks",
)  # fmt: skip


def train_data(count: int) -> Callable[[Any], dict[str, Any]]:
    """For a conversion: a dict of lists, one entry a sample, with at least `REQUIRED_KEYS`."""

    def check(result: Any) -> dict[str, Any]:
        if not isinstance(result, dict):
            raise ResultError(f"{shown(result)}; it must be a dict of lists.")
        missing = [key for key in REQUIRED_KEYS if key not in result]
        if missing:
            raise ResultError(f"a dict with {_keys(result)}; {', '.join(missing)} must be there too.")
        for key in REQUIRED_KEYS:
            if len(result[key]) != len(result["tokens"]):
                raise ResultError(f"{len(result[key])} {key} for {len(result['tokens'])} tokens; one for each sample.")
        if not result["tokens"] and count:
            raise ResultError(f"no samples; {count} were given.")
        return result

    return check


SOURCE_METHODS = ("get_groups", "add_groups", "state_dict", "load_state_dict")


def data_source(result: Any) -> Any:
    """For a data source: an object with `SOURCE_METHODS` and the list `buffer`."""
    missing = [name for name in SOURCE_METHODS if not callable(getattr(result, name, None))]
    if missing:
        raise ResultError(f"a {type(result).__name__} without {', '.join(missing)}.")
    return result


def _list(result: Any, count: int, noun: str) -> Sequence[Any]:
    if not isinstance(result, list | tuple):
        raise ResultError(f"{shown(result)}; it must be a list with one {noun} for each of the {count} samples.")
    if len(result) != count:
        raise ResultError(f"{len(result)} {noun}s for {count} samples; one for each, in their order.")
    return result


def _plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def _keys(values: dict[Any, Any]) -> str:
    return ("the keys " + ", ".join(map(str, values))) if values else "no keys"
