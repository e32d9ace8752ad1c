"""The hook that sees a rank's training data before its first step: ``--rollout-data-postprocess-path``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from slime.config import Config
from slime.data.train_batch import TrainBatch
from slime.megatron.objective import SequenceInputs
from slime.rollout.hook_call import HookFunction
from slime.rollout.hook_results import ResultError, nothing
from slime.rollout.hooks import BY_NAME

# Keys that a hook may change, and the fields that they are.
CHANGEABLE = {
    "advantages": "advantages",
    "returns": "returns",
    "log_probs": "old_log_probs",
    "ref_log_probs": "ref_log_probs",
    "values": "old_values",
}

Postprocess = Callable[[TrainBatch, list[SequenceInputs]], list[SequenceInputs]]


def load_postprocess(config: Config) -> Postprocess | None:
    """The hook of the flag, checked at every call; None without one.

    Raises:
        HookError: it cannot be loaded; when called, it breaks its contract.
    """
    if config.rollout_data_postprocess_path is None:
        return None
    hook = HookFunction(BY_NAME["rollout-data-postprocess"], config.rollout_data_postprocess_path, config.hook_timeout)

    def call(batch: TrainBatch, inputs: list[SequenceInputs]) -> list[SequenceInputs]:
        data = rollout_data(batch, inputs)

        def check(result: Any) -> list[SequenceInputs]:
            nothing(result)
            for key, values in fixed_data(batch).items():
                if not _same(values, data.get(key)):
                    raise ResultError(
                        f"data in which {key} changed; the denominators of the loss are those of the whole step, so a "
                        f"rank may change {', '.join(CHANGEABLE)} alone."
                    )
            return changed_inputs(data, inputs)

        subject = f"round {batch.round_id}, rank {batch.dp_rank}"
        found: list[SequenceInputs] = hook.call(subject, check, config, batch.round_id, data)
        return found

    return call


def rollout_data(batch: TrainBatch, inputs: Sequence[SequenceInputs]) -> dict[str, list[Any]]:
    """A rank's training data as lists with one entry a sequence; tensors are [R] of its response, ``tokens`` [S]."""
    data = fixed_data(batch)
    for key, field in CHANGEABLE.items():
        values = [getattr(one, field) for one in inputs]
        if values and values[0] is not None:
            data[key] = values
    return data


def fixed_data(batch: TrainBatch) -> dict[str, list[Any]]:
    """What a hook may read and not change. Copies, because arrays that Ray shipped lie in read-only memory."""
    sequences = batch.sequences
    data: dict[str, list[Any]] = {
        "tokens": [torch.tensor(one.tokens) for one in sequences],
        "total_lengths": [one.total_length for one in sequences],
        "response_lengths": [one.response_length for one in sequences],
        "loss_masks": [torch.tensor(one.loss_mask) for one in sequences],
        "rewards": [one.advantage for one in sequences],
        "raw_reward": [one.raw_reward for one in sequences],
        "truncated": [one.truncated for one in sequences],
        "sample_indices": [one.sample_index for one in sequences],
        "rollout_ids": [one.rollout_id for one in sequences],
        "rollout_log_probs": [torch.tensor(one.rollout_log_probs) for one in sequences],
        "metadata": [one.metadata for one in sequences],
    }
    teacher = [one.teacher_log_probs for one in sequences if one.teacher_log_probs is not None]
    if len(teacher) == len(sequences):
        data["teacher_log_probs"] = [torch.tensor(values) for values in teacher]
    return data


def changed_inputs(data: dict[str, list[Any]], inputs: Sequence[SequenceInputs]) -> list[SequenceInputs]:
    """The inputs with what a hook put under `CHANGEABLE`.

    Raises:
        ResultError: an entry is no finite tensor of the response's length.
    """
    changes: list[dict[str, Tensor]] = [{} for _ in inputs]
    for key, field in CHANGEABLE.items():
        if key not in data:
            continue
        if len(data[key]) != len(inputs):
            raise ResultError(f"{len(data[key])} {key} for {len(inputs)} sequences.")
        for at, (value, own) in enumerate(zip(data[key], inputs, strict=True)):
            length = len(own.advantages)
            if not isinstance(value, Tensor) or value.shape != (length,):
                shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ResultError(f"{key}[{at}] of {shape}; it is a tensor of the {length} response tokens.")
            if not bool(torch.isfinite(value).all()):
                raise ResultError(f"{key}[{at}] with a value that is not finite.")
            changes[at][field] = value.detach().to(torch.float32).cpu()
    return [replace(own, **change) for own, change in zip(inputs, changes, strict=True)]


def _same(expected: list[Any], found: list[Any] | None) -> bool:
    if found is None or len(found) != len(expected):
        return False
    if expected and isinstance(expected[0], Tensor):
        return all(isinstance(b, Tensor) and torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    return expected == found
