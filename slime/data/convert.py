"""Samples to training sequences: field by field, or from the mapping that a function of the user's makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slime.data.routes import Routes
from slime.data.sample import Sample, Status
from slime.data.shaping import Rewards
from slime.data.train_batch import TrainSequence

REQUIRED_KEYS = (
    "tokens",
    "response_lengths",
    "rewards",
    "raw_reward",
    "truncated",
    "sample_indices",
    "loss_masks",
)
OPTIONAL_KEYS = ("rollout_log_probs", "rollout_ids", "teacher_log_probs", "metadata")


class ConvertError(ValueError):
    """Training data made by a function of the user's break the contract; the message names row, key and numbers."""


def convert_samples(samples: Sequence[Sample], rewards: Rewards, rollout_ids: Sequence[int]) -> list[TrainSequence]:
    """One training sequence for each sample, which passed `Sample.check`."""
    sequences = [
        TrainSequence(
            tokens=np.asarray(sample.tokens, dtype=np.int64),
            response_length=sample.response_length,
            loss_mask=np.asarray(sample.mask(), dtype=np.float32),
            advantage=shaped,
            raw_reward=raw,
            rollout_log_probs=_log_probs(sample),
            rollout_id=rollout,
            rollout_mask_sum=1,
            sample_index=-1 if sample.index is None else sample.index,
            weight_versions=list(sample.weight_versions),
            truncated=sample.status is Status.TRUNCATED,
            teacher_log_probs=_float32(sample.teacher_log_probs),
            rollout_topk_token_ids=sample.rollout_topk_token_ids,
            rollout_topk_log_probs=sample.rollout_topk_log_probs,
            rollout_routed_experts=sample.rollout_routed_experts,
            metadata=sample.train_metadata,
        )
        for sample, shaped, raw, rollout in zip(samples, rewards.shaped, rewards.raw, rollout_ids, strict=True)
    ]
    _set_mask_sums(sequences)
    return sequences


def converted_sequences(
    data: Mapping[str, Any], samples: Sequence[Sample], rollout_ids: Sequence[int]
) -> list[TrainSequence]:
    """Training sequences from a mapping of lists (``--custom-convert-samples-to-train-data-path``).

    What the mapping leaves out (log-probs, rollout ids) is taken from the sample with the same index.

    Args:
        data: `REQUIRED_KEYS` and any of `OPTIONAL_KEYS`, each a list with one entry a row; rows may be fewer or more
            than samples.
        samples: those that the function was given.
        rollout_ids: trajectory of each of them.

    Raises:
        ConvertError: a key is missing or unknown, lists differ in length, or a row breaks the contract.
    """
    missing = [key for key in REQUIRED_KEYS if key not in data]
    unknown = [key for key in data if key not in (*REQUIRED_KEYS, *OPTIONAL_KEYS)]
    if missing or unknown:
        what = f"lack {', '.join(missing)}" if missing else f"have the unknown {', '.join(map(repr, unknown))}"
        raise ConvertError(
            f"the converted training data {what}; keys are {', '.join((*REQUIRED_KEYS, *OPTIONAL_KEYS))}."
        )
    count = len(data["tokens"])
    for key, values in data.items():
        if len(values) != count:
            raise ConvertError(f"the converted training data have {len(values)} {key} for {count} tokens.")
    if not count:
        raise ConvertError(f"the converted training data have no rows; {len(samples)} samples were given.")
    origins = list(zip(samples, rollout_ids, strict=True))
    by_index = {sample.index: (sample, rollout) for sample, rollout in origins}
    sequences = []
    for row, index in enumerate(data["sample_indices"]):
        # Pieces of one trajectory share an index, so the place comes first.
        same_place = count == len(origins) and origins[row][0].index == index
        sequences.append(_row(data, row, origins[row] if same_place else by_index.get(index)))
    _set_mask_sums(sequences)
    return sequences


def _row(data: Mapping[str, Any], row: int, source: tuple[Sample, int] | None) -> TrainSequence:
    index, length = int(data["sample_indices"][row]), int(data["response_lengths"][row])
    tokens = np.asarray(data["tokens"][row], dtype=np.int64)
    mask = np.asarray(data["loss_masks"][row], dtype=np.float32)
    if not 1 <= length < len(tokens):
        raise ConvertError(f"row {row}: {len(tokens)} tokens with a response of {length}; it needs a token before it.")
    log_probs = data["rollout_log_probs"][row] if "rollout_log_probs" in data else None
    if log_probs is None:
        log_probs = None if source is None else source[0].rollout_log_probs
    if log_probs is None:
        raise ConvertError(f"row {row}: there is no sample {index} whose rollout_log_probs could be taken; give them.")
    rollout = data["rollout_ids"][row] if "rollout_ids" in data else None if source is None else source[1]
    if rollout is None:
        raise ConvertError(f"row {row}: there is no sample {index} whose rollout id could be taken; give rollout_ids.")
    for key, values in (("loss_masks", mask), ("rollout_log_probs", log_probs)):
        if len(values) != length:
            raise ConvertError(f"row {row}: {len(values)} {key} for {length} response tokens.")
    advantage, raw = float(data["rewards"][row]), float(data["raw_reward"][row])
    if not math.isfinite(advantage) or not set(mask.tolist()) <= {0.0, 1.0}:
        raise ConvertError(f"row {row}: rewards are finite and masks 0 or 1; it has the reward {advantage}.")
    return TrainSequence(
        tokens=tokens,
        response_length=length,
        loss_mask=mask,
        advantage=advantage,
        raw_reward=raw,
        rollout_log_probs=np.asarray(log_probs, dtype=np.float32),
        rollout_id=int(rollout),
        rollout_mask_sum=1,
        sample_index=index,
        weight_versions=[] if source is None else list(source[0].weight_versions),
        truncated=bool(data["truncated"][row]),
        teacher_log_probs=_float32(data["teacher_log_probs"][row]) if "teacher_log_probs" in data else None,
        rollout_routed_experts=_routes(tokens, source),
        metadata=data["metadata"][row] if "metadata" in data else None,
    )


def _routes(tokens: npt.NDArray[np.int64], source: tuple[Sample, int] | None) -> Routes | None:
    """The sampler's experts belong to a row only as long as its tokens are the sample's."""
    if source is None or not np.array_equal(tokens, source[0].tokens):
        return None
    return source[0].rollout_routed_experts


def _set_mask_sums(sequences: Sequence[TrainSequence]) -> None:
    sums: dict[int, int] = {}
    for sequence in sequences:
        sums[sequence.rollout_id] = sums.get(sequence.rollout_id, 0) + int(sequence.loss_mask.sum())
    for sequence in sequences:
        sequence.rollout_mask_sum = max(sums[sequence.rollout_id], 1)


def _log_probs(sample: Sample) -> npt.NDArray[np.float32]:
    if sample.rollout_log_probs is None:
        return np.zeros(sample.response_length, np.float32)
    return np.asarray(sample.rollout_log_probs, dtype=np.float32)


def _float32(values: Sequence[float] | None) -> npt.NDArray[np.float32] | None:
    return None if values is None else np.asarray(values, dtype=np.float32)
