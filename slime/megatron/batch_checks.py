"""What a batch must be before the trainer touches its weights."""

from __future__ import annotations

import numpy as np

from slime.data.routes import RoutesError, RouteShape, needed_rows
from slime.data.train_batch import TrainBatch, TrainSequence
from slime.weights.hf_config import HFModelConfig


class TrainBatchError(ValueError):
    """A batch does not fit this trainer; the message names the sample and the numbers."""


def check_batch(
    batch: TrainBatch, rank: int, ranks: int, model: HFModelConfig, routes: RouteShape | None = None
) -> None:
    """Refuse a batch for another rank, without samples in a step, or with samples that do not fit the model.

    Args:
        routes: what the sampler's experts must look like, when they are to be replayed.

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
        if routes is not None:
            _check_routes(sequence, routes)


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


def _check_routes(sequence: TrainSequence, shape: RouteShape) -> None:
    name, routes = f"sample {sequence.sample_index}", sequence.rollout_routed_experts
    if routes is None:
        raise TrainBatchError(
            f"{name} came without rollout_routed_experts, the experts that its tokens went through, which "
            "--use-rollout-routing-replay trains with. A function of the user's that makes samples adds what the "
            "engine returned with `current().append(sample, generation)`."
        )
    least = needed_rows(sequence.total_length - sequence.response_length, sequence.loss_mask)
    try:
        shape.check(routes, least, sequence.total_length - 1)
    except RoutesError as error:
        raise TrainBatchError(f"{name}: rollout_routed_experts: {error}.") from error
