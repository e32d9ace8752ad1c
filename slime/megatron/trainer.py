"""`MegatronTrainer`: one rank of the training side, from samples to new weights. Knows nothing of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from torch import Tensor

from slime.config import Config
from slime.data.train_batch import TrainBatch, TrainStep
from slime.megatron import process
from slime.megatron.batch_checks import check_batch
from slime.megatron.checkpoint import LoadedState, TrainState, load_checkpoint, save_checkpoint, save_release
from slime.megatron.checkpoint_writer import CheckpointWriter
from slime.megatron.critic import FOLDER as CRITIC_FOLDER
from slime.megatron.critic import Critic
from slime.megatron.estimate import ForwardPasses, estimate
from slime.megatron.forward import Mark, Scorable, read_responses
from slime.megatron.gather import gather_hf_tensors, gather_stage_tensors
from slime.megatron.log_probs import score_tokens
from slime.megatron.model import build_model, load_hf_weights
from slime.megatron.objective import LogProbGap, MicroBatch, SequenceInputs, evaluate_policy, make_micro_batch
from slime.megatron.optimizer import build_optimizer, wrap_model
from slime.megatron.packing import PackedBatch
from slime.megatron.passes import (
    REFERENCE,
    TEACHER,
    correction_means,
    needed_passes,
    reference_folder,
    reference_source,
    sequence_inputs,
)
from slime.megatron.postprocess import load_postprocess, rollout_data
from slime.megatron.routing_replay import routing_replay
from slime.megatron.settings import (
    compute_settings,
    estimator_options,
    objective_settings,
    optimizer_settings,
    parallel_settings,
)
from slime.megatron.start import find_start, refuse_replacing
from slime.megatron.step import StepRunner
from slime.megatron.weight_copies import WeightCopies
from slime.weights.mtp import with_mtp
from slime.weights.save_hf import save_hf
from slime.weights.served import ServedCheckpoint, read_served_config
from slime.weights.tracker import CheckpointError


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
        self._postprocess = load_postprocess(config)
        trunk = read_served_config(Path(config.hf_checkpoint))
        self.model_config = with_mtp(trunk, config.mtp_num_layers or 0)
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
            parallel=parallel_settings(config, trunk.layers),
        )
        self.device = spec.torch_device
        # A CPU computes in float32: it has no fast bfloat16, and the comparison with the engine is then exact.
        self.dtype = torch.float32 if config.device == "cpu" else torch.bfloat16
        self._settings = objective_settings(config)
        self._estimator = estimator_options(config)
        self._needs = needed_passes(config)
        self.rounds_trained = 0
        with ExitStack() as undo:  # a trainer that cannot be built leaves no process group behind
            process.start(spec)
            undo.callback(process.stop)
            self._model = build_model(
                self.model_config, self.device, compute_settings(config, self.dtype), spec.parallel
            )
            self._replay = routing_replay(config, self.model_config, self._model)
            self._copies = WeightCopies(self._model)
            self._wrapped = wrap_model(self._model, optimizer_settings(config))
            self._build_optimizer()
            self._writer = CheckpointWriter(config.async_save, config.keep_last)
            self._critic = Critic(config, trunk, self.device, self.dtype) if self._needs.values else None
            undo.pop_all()

    def _build_optimizer(self) -> None:
        """For bfloat16 the optimizer copies the weights into float32, so it is built again after they are loaded."""
        optimizer, scheduler = build_optimizer(self._wrapped, optimizer_settings(self.config), self.dtype)
        self._state = TrainState(optimizer, scheduler)
        evaluate = partial(evaluate_policy, settings=self._settings)
        self._runner = StepRunner(self._wrapped, optimizer, scheduler, evaluate)

    def load(self) -> LoadedState:
        """Find the weights and load them: the policy's, and those of reference, teacher and critic where they are used.

        The policy's are the latest checkpoint of --load, or that of --ckpt-step, with optimizer, schedule and random
        state; else --ref-load, Megatron's or Hugging Face's, weights alone. A --load folder that does not exist yet or
        holds no checkpoint is normal on the first start of a run. --finetune takes the weights of --load alone, which
        may be Hugging Face's.

        Raises:
            CheckpointError, HFCheckpointError, WeightNameError: there is nothing to load, or it cannot be loaded; or
                --save holds checkpoints of an earlier run that this one would replace.
        """
        config, start = self.config, find_start(self.config)
        refuse_replacing(config, start)
        if self._needs.teacher:
            self._load_weights(Path(config.opd_teacher_load or ""), config.opd_teacher_ckpt_step)
            self._copies.keep(TEACHER)
        resumed = start.source if start.resumed else None
        if self._needs.ref:
            self._load_weights(*reference_source(config, resumed))
            self._copies.keep(REFERENCE)
        if resumed is not None:
            loaded = load_checkpoint(
                resumed,
                self._model,
                self._state,
                start.step,
                optimizer=not config.no_load_optim,
                random_state=not config.no_load_rng,
            )
        else:
            loaded = self._load_weights(start.source, start.step)
            if self.dtype is not torch.float32:
                self._build_optimizer()
        if self._critic is not None:
            self._critic.load(resumed, loaded.step)
        return loaded

    def _load_weights(self, source: Path, step: int | None) -> LoadedState:
        """Weights alone, from a Hugging Face or a Megatron checkpoint; `step` of the second, None = its latest."""
        if not (source / "config.json").is_file():
            return load_checkpoint(source, self._model, None, step)
        if step is not None:
            raise CheckpointError(f"{source} is a Hugging Face checkpoint, which has no step {step}, nor any other.")
        load_hf_weights(self._model, self.model_config, source)
        return LoadedState(source=source)

    def train(self, batch: TrainBatch) -> dict[str, float]:
        """Run the optimizer steps of one round: the critic's, if there is one, then the policy's.

        Returns:
            Metrics over all ranks, means over the round's steps: loss, pg_loss, pg_clipfrac, ppo_kl, entropy_loss,
            grad_norm, lr, weight_decay, correction metrics, global_batch_size; of the round's tokens advantages,
            returns and what they are made of; the critic's with ``critic-`` before their names; and of the weights
            before the first step train_rollout_logprob_abs_diff (mean over trained tokens) and
            train_rollout_logprob_abs_diff_max.

        Raises:
            TrainBatchError: the batch is for another rank, or a sample does not fit the model.
            NonFiniteStepError: a step is refused; earlier steps of the round stay applied.
        """
        rank, ranks = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
        check_batch(batch, rank, ranks, self.model_config, self._replay.wanted)
        self._replay.start(batch.sequences)
        inputs, metrics = self._prepare(batch)
        means = correction_means(batch, inputs, self._settings.options.mismatch, self._sum_over_ranks)
        # Made when they are needed: their attention masks would fill the memory of a GPU, all at once.
        make = partial(self._micro_batches, batch, inputs)
        if self._critic is not None:
            steps = [self._critic.step(make(step, mean)) for step, mean in zip(batch.steps, means, strict=True)]
            metrics |= {f"critic-{name}": value for name, value in _mean(steps).items()}
        self.rounds_trained += 1
        if self._critic is not None and batch.round_id < self.config.num_critic_only_steps:
            return metrics
        per_step: list[dict[str, float]] = []
        gap = LogProbGap()
        for step, mean in zip(batch.steps, means, strict=True):
            found, step_gap = self._runner.run(make(step, mean))
            # With several steps the old log-probs are those of the weights before the first, in every step.
            gap = gap.merged(step_gap)
            per_step.append({**found, "global_batch_size": float(step.num_rollouts)})
        interval = self.config.ref_update_interval
        if self._needs.ref and interval and (batch.round_id + 1) % interval == 0:
            self._copies.keep(REFERENCE)
        if self._settings.loss_type == "policy_loss":
            metrics |= self._reduce_gap(gap)
        return {**_mean(per_step), **metrics}

    def _prepare(self, batch: TrainBatch) -> tuple[list[SequenceInputs], dict[str, float]]:
        """The forward passes that the round needs before its first step, and the advantages that follow from them."""
        sequences, chunks, needs = batch.sequences, batch.log_prob_indices, self._needs
        if self._settings.loss_type == "sft_loss" or self.config.disable_compute_advantages_and_returns:
            return [SequenceInputs(torch.zeros(one.response_length)) for one in sequences], {}
        old: list[Tensor] | None = None
        if needs.rollout_as_old:
            old = [torch.as_tensor(one.rollout_log_probs, dtype=torch.float32) for one in sequences]
        elif needs.old or len(batch.steps) > 1:
            with self._replay.old_pass() as mark:
                old = self._log_probs(sequences, chunks, mark)
        passes = ForwardPasses(
            old=old,
            ref=self._log_probs_of(REFERENCE, sequences, chunks) if needs.ref else None,
            teacher=self._log_probs_of(TEACHER, sequences, chunks) if needs.teacher else None,
            values=None if self._critic is None else self._critic.values(sequences, chunks),
        )
        custom = None if self._settings.custom.advantages is None else partial(self._custom_advantages, batch, passes)
        found = estimate(sequences, passes, self._estimator, self._sum_over_ranks, custom)
        inputs = sequence_inputs(found.advantages, passes, found.returns)
        if self._postprocess is not None:
            inputs = self._postprocess(batch, inputs)
        return inputs, found.metrics

    def _custom_advantages(
        self, batch: TrainBatch, passes: ForwardPasses, kl: list[Tensor] | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Ask the user's function; it sees all that the estimators do."""
        hook = self._settings.custom.advantages
        assert hook is not None  # asked by the caller
        rewards = [torch.full((one.response_length,), one.advantage) for one in batch.sequences]
        data = rollout_data(batch, sequence_inputs(rewards, passes))
        del data["advantages"]
        return hook(batch, data if kl is None else data | {"kl": kl})

    def _micro_batches(
        self, batch: TrainBatch, inputs: Sequence[SequenceInputs], step: TrainStep, correction_mean: float
    ) -> list[MicroBatch]:
        made = []
        for indices in step.micro_batch_indices:
            one = make_micro_batch(
                [batch.sequences[i] for i in indices],
                [inputs[i] for i in indices],
                step,
                self._settings,
                self._model.config,
                self.device,
                correction_mean,
            )
            self._replay.give(indices, one.packed)
            made.append(one)
        return made

    def log_probs(self, samples: Sequence[Scorable]) -> list[npt.NDArray[np.float32]]:
        """Log-probabilities of the response tokens under the current weights, at the rollout temperature.

        Local to this rank: no communication. Returns float32 [R_i] for each sample, in their order.
        """
        self._replay.start(samples)
        with self._replay.old_pass() as mark:
            return [values.numpy() for values in self._log_probs(samples, None, mark)]

    def _log_probs(
        self, samples: Sequence[Scorable], chunks: Sequence[Sequence[int]] | None = None, mark: Mark | None = None
    ) -> list[Tensor]:
        def read(logits: Tensor, packed: PackedBatch) -> Tensor:
            rows = self._settings.log_probs_chunk
            return score_tokens(logits, packed, self._settings.temperature, chunk_rows=rows).log_probs

        return read_responses(self._model, samples, self.device, self.config.max_tokens_per_gpu, read, chunks, mark)

    def _log_probs_of(self, copy: str, samples: Sequence[Scorable], chunks: Sequence[Sequence[int]]) -> list[Tensor]:
        with self._copies.swapped_in(copy):
            return self._log_probs(samples, chunks)

    def named_hf_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every weight under its Hugging Face name, whole and contiguous, in the order of the forward pass.

        Most share memory with the model: send or copy them before the next `train`.
        """
        return gather_hf_tensors(self._model, self.model_config)

    def named_stage_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """As `named_hf_tensors`, of this rank's pipeline stage alone; only the ranks of the stage take part."""
        return gather_stage_tensors(self._model, self.model_config)

    def save(self, step: int, data_cursor: Mapping[str, Any] | None = None) -> Path:
        """Write a checkpoint after round `step` into --save; returns its folder.

        With --async-save it is begun, and becomes visible when it is whole; the last round's is waited for. The
        weights of --save-hf are there when this returns.

        Args:
            data_cursor: JSON values; `load` returns them.

        Raises:
            CheckpointError: no --save, or it or the one before cannot be written. Earlier checkpoints stay valid.
        """
        if self.config.save is None:
            raise CheckpointError("this run has no --save; name a folder for checkpoints.")
        folder = Path(self.config.save)
        self._writer.wait()
        if self._critic is not None:
            # First: a kill between the two leaves the policy's earlier checkpoint, whose critic is still there.
            self._critic.save(folder, step, self._writer)
        interval = self.config.ref_update_interval
        if self._needs.ref and interval and step + 1 >= interval:
            with self._copies.swapped_in(REFERENCE):
                save_release(reference_folder(folder, step), self._model, {"reference": step}, writer=self._writer)
        optimizer = not self.config.no_save_optim
        saved = save_checkpoint(folder, step, self._model, self._state, data_cursor, self._writer, optimizer)
        self._writer.prune((folder, folder / CRITIC_FOLDER, reference_folder(folder, step).parent), step)
        if self.config.save_hf is not None:
            served = ServedCheckpoint(Path(self.config.hf_checkpoint), self.model_config)
            save_hf(self.config.save_hf, step, self.named_hf_tensors(), served)
        if step + 1 == self.config.num_rollout:
            self._writer.wait()
        return saved

    def close(self) -> None:
        """Finish what is being saved and leave the process group; the trainer cannot be used afterwards.

        Raises:
            CheckpointError: it cannot be written. Earlier checkpoints stay valid.
        """
        try:
            self._writer.close()
        finally:
            process.stop()

    def _sum_over_ranks(self, values: Tensor) -> Tensor:
        total = values.to(self.device, torch.float64)
        dist.all_reduce(total, group=parallel_state.get_data_parallel_group())
        return total.cpu()

    def _reduce_gap(self, gap: LogProbGap) -> dict[str, float]:
        total, tokens = self._sum_over_ranks(torch.tensor([gap.total, float(gap.tokens)])).tolist()
        largest = torch.tensor(gap.largest, dtype=torch.float64, device=self.device)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=parallel_state.get_data_parallel_group())
        return {
            "train_rollout_logprob_abs_diff": total / max(tokens, 1.0),
            "train_rollout_logprob_abs_diff_max": float(largest),
        }


def _mean(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}
