"""What one data-parallel rank trains on in one round: sequences, and the schedule that cuts them into steps.

NumPy arrays and plain numbers only. Ray ships NumPy without copying, and nothing here needs a torch pickle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class TrainSequence:
    """One sample, ready to be packed. S = prompt + response tokens, R = response tokens.

    Attributes:
        tokens: int64 [S], prompt then response.
        response_length: R. Response token ``t`` is predicted by the logits at position ``S - R + t - 1``.
        loss_mask: float32 [R], 1.0 = the token trains.
        advantage: the sequence's scalar: its reward after group normalisation. Estimators spread it over tokens.
        raw_reward: the reward as graded.
        rollout_log_probs: float32 [R], the sampler's log-probabilities; zeros for supervised data, which have none.
        rollout_id: trajectory that the loss averages over.
        rollout_mask_sum: trained tokens of that whole trajectory, siblings on other ranks included; at least 1.
        sample_index: `Sample.index`.
        weight_versions: versions of the weights that generated the response.
        truncated: the response hit its length limit.
        teacher_log_probs: float32 [R], a teacher's log-probabilities that came with the sample, or None.
        rollout_topk_token_ids: int32 [R, k], the sampler's likeliest ids, or None.
        rollout_topk_log_probs: float32 [R, k], their log-probabilities, or None.
        rollout_routed_experts: int [S - 1, layers, top-k], experts that the sampler's router chose, or None.
        metadata: `Sample.train_metadata`.
    """

    tokens: npt.NDArray[np.int64]
    response_length: int
    loss_mask: npt.NDArray[np.float32]
    advantage: float
    raw_reward: float
    rollout_log_probs: npt.NDArray[np.float32]
    rollout_id: int
    rollout_mask_sum: int
    sample_index: int
    weight_versions: list[str] = field(default_factory=list)
    truncated: bool = False
    teacher_log_probs: npt.NDArray[np.float32] | None = None
    rollout_topk_token_ids: npt.NDArray[np.int32] | None = None
    rollout_topk_log_probs: npt.NDArray[np.float32] | None = None
    rollout_routed_experts: npt.NDArray[np.integer[Any]] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def total_length(self) -> int:
        """S, tokens of prompt and response together."""
        return int(self.tokens.shape[0])


@dataclass(slots=True)
class TrainStep:
    """One optimizer step.

    Attributes:
        micro_batch_indices: for each micro-batch, positions in `TrainBatch.sequences`. Every rank of the step has the
            same number of micro-batches, because pipeline and gradient collectives run once for each.
        num_rollouts: trajectories of the step over all ranks; denominator of the per-rollout mean.
        num_tokens: trained tokens of the step over all ranks, at least 1; denominator of the per-token mean.
    """

    micro_batch_indices: list[list[int]]
    num_rollouts: int
    num_tokens: int


@dataclass(slots=True)
class TrainBatch:
    """Everything that data-parallel rank `dp_rank` of `dp_size` trains on in round `round_id`.

    Attributes:
        sequences: of all steps.
        steps: optimizer steps, in their order.
        log_prob_indices: micro-batches of passes without gradients over all sequences, as positions in `sequences`.
            Every rank has the same number of them; a sequence may stand in several.
    """

    round_id: int
    dp_rank: int
    dp_size: int
    sequences: list[TrainSequence]
    steps: list[TrainStep]
    log_prob_indices: list[list[int]] = field(default_factory=list)

    def micro_batches(self, step: int) -> list[list[TrainSequence]]:
        """Sequences of step `step`, one list for each micro-batch."""
        return [[self.sequences[i] for i in indices] for indices in self.steps[step].micro_batch_indices]
