"""`MegatronTrainer`: one rank of the training side, from samples to new weights. Knows nothing of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from torch import Tensor

from slime.config import Config
from slime.data.train_batch import TrainBatch, TrainSequence
from slime.megatron import process
from slime.megatron.checkpoint import LoadedState, TrainState, load_checkpoint, save_checkpoint
from slime.megatron.log_probs import score_tokens
from slime.megatron.model import build_model, load_hf_weights, named_hf_tensors
from slime.megatron.objective import LogProbGap, ObjectiveSettings, make_micro_batch
from slime.megatron.optimizer import build_optimizer, wrap_model
from slime.megatron.packing import pack
from slime.megatron.settings import objective_settings, optimizer_settings
from slime.megatron.step import StepRunner
from slime.weights.hf_config import HFModelConfig
from slime.weights.tracker import CheckpointError, read_tracker

DEFAULT_MAX_TOKENS = 8192
"""Tokens of one forward pass for log-probs, when --max-tokens-per-gpu does not say."""


class Scorable(Protocol):
    """What `MegatronTrainer.log_probs` needs of a sample: `Sample` and `TrainSequence` have it."""

    tokens: Any
    response_length: int


class TrainBatchError(ValueError):
    """A batch does not fit this trainer; the message names the sample and the numbers."""


class MegatronTrainer:
    """One data-parallel rank: model, optimizer, checkpoints. All ranks call the same methods in the same order.

    Attributes:
        model_config: dimensions, from ``config.json`` of --hf-checkpoint.
        rounds_trained: calls of `train` in this process.
    """

    def __init__(
        self,
        config: Config,
        rank: int = 0,
        world_size: int = 1,
        master_addr: str = "127.0.0.1",
        master_port: int = 0,
        local_rank: int = 0,
    ) -> None:
        """Join the process group and build the model and its optimizer; weights are unset until `load`.

        Raises:
            HFConfigError: --hf-checkpoint has no config.json, or of a family that cannot be built.
            TrainerProcessError: no GPU, or the other ranks cannot be reached.
            CpuShimError: --device cpu with a release of megatron-core that was not tried.
        """
        self.config = config
        self.model_config = HFModelConfig.read(Path(config.hf_checkpoint))
        self.rank, self.world_size = rank, world_size
        spec = process.ProcessSpec(
            device="cpu" if config.device == "cpu" else "cuda",
            rank=rank,
            world_size=world_size,
            master_addr=master_addr,
            master_port=master_port,
            local_rank=local_rank,
            seed=config.seed,
            timeout_minutes=config.distributed_timeout_minutes,
        )
        self.device = spec.torch_device
        # A CPU computes in float32: it has no fast bfloat16, and the comparison with the engine is then exact.
        self.dtype = torch.float32 if config.device == "cpu" else torch.bfloat16
        self._settings: ObjectiveSettings = objective_settings(config)
        self.rounds_trained = 0
        with ExitStack() as undo:  # a trainer that cannot be built leaves no process group behind
            process.start(spec)
            undo.callback(process.stop)
            self._model = build_model(self.model_config, self.device, self.dtype, config.attention_softmax_in_fp32)
            self._wrapped = wrap_model(self._model)
            self._build_optimizer()
            undo.pop_all()

    def _build_optimizer(self) -> None:
        """For bfloat16 the optimizer copies the weights into float32, so it is built again after they are loaded."""
        optimizer, scheduler = build_optimizer(self._wrapped, optimizer_settings(self.config), self.dtype)
        self._state = TrainState(optimizer, scheduler)
        self._runner = StepRunner(self._wrapped, optimizer, scheduler, self._settings)

    def load(self) -> LoadedState:
        """Find the weights and load them.

        The latest checkpoint of --load, with optimizer, schedule and random state; else --ref-load, Megatron's or
        Hugging Face's, weights alone. A --load folder that does not exist yet or holds no checkpoint is normal on the
        first start of a run.

        Raises:
            CheckpointError, HFCheckpointError, WeightNameError: there is nothing to load, or it cannot be loaded.
        """
        load = None if self.config.load is None else Path(self.config.load)
        if load is not None and read_tracker(load) is not None:
            return load_checkpoint(load, self._model, self._state)
        if self.config.ref_load is None:
            raise CheckpointError(f"--load {load} holds no checkpoint, and there is no --ref-load to start from.")
        source = Path(self.config.ref_load)
        if (source / "config.json").is_file():
            load_hf_weights(self._model, self.model_config, source)
            loaded = LoadedState(source=source)
        else:
            loaded = load_checkpoint(source, self._model, None)
        if self.dtype is not torch.float32:
            self._build_optimizer()
        return loaded

    def train(self, batch: TrainBatch) -> dict[str, float]:
        """Run the optimizer steps of one round.

        Returns:
            Metrics over all ranks, means over the round's steps: loss, pg_loss, pg_clipfrac, ppo_kl, entropy_loss,
            grad_norm, lr, correction metrics, global_batch_size; and of the weights before the first step
            train_rollout_logprob_abs_diff (mean over trained tokens) and train_rollout_logprob_abs_diff_max.

        Raises:
            TrainBatchError: the batch is for another rank, or a sample does not fit the model.
            NonFiniteStepError: a step is refused; earlier steps of the round stay applied.
        """
        self._check(batch)
        many = len(batch.steps) > 1
        old = [torch.from_numpy(values) for values in self.log_probs(batch.sequences)] if many else None
        per_step: list[dict[str, float]] = []
        gap = LogProbGap()
        for step in batch.steps:
            micro_batches = [
                make_micro_batch(
                    [batch.sequences[i] for i in indices],
                    step,
                    self._settings,
                    self.device,
                    None if old is None else [old[i] for i in indices],
                )
                for indices in step.micro_batch_indices
            ]
            metrics, step_gap = self._runner.run(micro_batches)
            # With several steps the old log-probs are those of the weights before the first, in every step.
            gap = gap.merged(step_gap)
            per_step.append({**metrics, "global_batch_size": float(step.num_rollouts)})
        self.rounds_trained += 1
        means = {name: sum(step[name] for step in per_step) / len(per_step) for name in per_step[0]}
        return {**means, **self._reduce_gap(gap)}

    def log_probs(self, samples: Sequence[Scorable]) -> list[npt.NDArray[np.float32]]:
        """Log-probabilities of the response tokens under the current weights, at the rollout temperature.

        Local to this rank: no communication. Returns float32 [R_i] for each sample, in their order.
        """
        results: list[npt.NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(samples)
        limit = self.config.max_tokens_per_gpu or DEFAULT_MAX_TOKENS
        for indices in _chunks_by_tokens([len(sample.tokens) for sample in samples], limit):
            chosen = [samples[i] for i in indices]
            packed = pack(
                [torch.as_tensor(sample.tokens) for sample in chosen],
                [sample.response_length for sample in chosen],
                self.device,
            )
            with torch.no_grad():
                logits = self._model(packed.tokens, packed.positions, packed.attention_mask)
                scores = score_tokens(logits, packed, self._settings.temperature)
            parts = scores.log_probs.cpu().split(packed.response_lengths)
            for index, part in zip(indices, parts, strict=True):
                results[index] = part.numpy().copy()
        return results

    def named_hf_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every weight under its Hugging Face name, whole and contiguous, in the order of the forward pass.

        Most share memory with the model: send or copy them before the next `train`.
        """
        return named_hf_tensors(self._model, self.model_config)

    def save(self, step: int, data_cursor: Mapping[str, Any] | None = None) -> Path:
        """Write a checkpoint after round `step` into --save; returns its folder.

        Args:
            data_cursor: JSON values; `load` returns them.

        Raises:
            CheckpointError: no --save, or it cannot be written. Earlier checkpoints stay valid.
        """
        if self.config.save is None:
            raise CheckpointError("this run has no --save; name a folder for checkpoints.")
        return save_checkpoint(Path(self.config.save), step, self._model, self._state, data_cursor)

    def close(self) -> None:
        """Leave the process group; the trainer cannot be used afterwards."""
        process.stop()

    def _check(self, batch: TrainBatch) -> None:
        if (batch.dp_rank, batch.dp_size) != (self.rank, self.world_size):
            raise TrainBatchError(
                f"the batch is for data-parallel rank {batch.dp_rank} of {batch.dp_size}, this trainer is rank "
                f"{self.rank} of {self.world_size}."
            )
        if not batch.steps or any(not indices for step in batch.steps for indices in step.micro_batch_indices):
            raise TrainBatchError(f"round {batch.round_id} has {len(batch.steps)} steps, one of them without samples.")
        for sequence in batch.sequences:
            self._check_sequence(sequence)

    def _check_sequence(self, sequence: TrainSequence) -> None:
        name = f"sample {sequence.sample_index}"
        if sequence.total_length > self.model_config.max_positions:
            raise TrainBatchError(
                f"{name} has {sequence.total_length} tokens, and the model has {self.model_config.max_positions} "
                "positions; lower --rollout-max-response-len or --rollout-max-prompt-len."
            )
        largest = int(np.max(sequence.tokens))
        if largest >= self.model_config.vocab:
            raise TrainBatchError(
                f"{name} has the token id {largest}, and the model's vocabulary has {self.model_config.vocab}; the "
                "engine must serve the model of --hf-checkpoint."
            )

    def _reduce_gap(self, gap: LogProbGap) -> dict[str, float]:
        group = parallel_state.get_data_parallel_group()
        sums = torch.tensor([gap.total, float(gap.tokens)], dtype=torch.float64, device=self.device)
        largest = torch.tensor(gap.largest, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums, group=group)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
        return {
            "train_rollout_logprob_abs_diff": float(sums[0] / sums[1].clamp(min=1)),
            "train_rollout_logprob_abs_diff_max": float(largest),
        }


def _chunks_by_tokens(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Indices in runs of at most `limit` tokens; a longer sequence stands alone."""
    run: list[int] = []
    total = 0
    for index, length in enumerate(lengths):
        if run and total + length > limit:
            yield run
            run, total = [], 0
        run.append(index)
        total += length
    if run:
        yield run
