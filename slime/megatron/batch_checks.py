"""What a batch must be before the trainer touches its weights."""

from __future__ import annotations

import numpy as np

from slime.data.train_batch import TrainBatch, TrainSequence
from slime.weights.hf_config import HFModelConfig


class TrainBatchError(ValueError):
    """A batch does not fit this trainer; the message names the sample and the numbers."""


def check_batch(batch: TrainBatch, rank: int, ranks: int, model: HFModelConfig) -> None:
    """Refuse a batch for another rank, without samples in a step, or with samples that do not fit the model.

    Raises:
        TrainBatchError: as said.
    """
    if (batch.dp_rank, batch.dp_size) != (rank, ranks):
        raise TrainBatchError(
            f"the batch is for data-parallel rank {batch.dp_rank} of {batch.dp_size}, this trainer is rank "
            f"{rank} of {ranks}."
        )
    if not batch.steps or any(not indices for step in batch.steps for indices in step.micro_batch_indices):
        raise TrainBatchError(f"round {batch.round_id} has {len(batch.steps)} steps, one of them without samples.")
    for sequence in batch.sequences:
        _check_sequence(sequence, model)


def _check_sequence(sequence: TrainSequence, model: HFModelConfig) -> None:
    name = f"sample {sequence.sample_index}"
    if sequence.total_length > model.max_positions:
        raise TrainBatchError(
            f"{name} has {sequence.total_length} tokens, and the model has {model.max_positions} "
            "positions; lower --rollout-max-response-len or --rollout-max-prompt-len."
        )
    largest = int(np.max(sequence.tokens))
    if largest >= model.vocab:
        raise TrainBatchError(
            f"{name} has the token id {largest}, and the model's vocabulary has {model.vocab}; the "
            "engine must serve the model of --hf-checkpoint."
        )
