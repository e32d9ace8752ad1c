"""One optimizer step: micro-batches through Megatron's schedule, checks, clipping, update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, finalize_model_grads
from megatron.core.optimizer import MegatronOptimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler, get_canonical_lr_for_logging
from torch import Tensor

from slime.algorithms.objective import PolicyTokens
from slime.megatron.objective import LogProbGap, MicroBatch, MicroBatchResult
from slime.megatron.packing import run_model
from slime.megatron.pipeline import run_schedule
from slime.megatron.ranks import from_last_stage, sees_outputs

Evaluate = Callable[[Tensor, MicroBatch], MicroBatchResult]
"""From the outputs of the model and their micro-batch to its share of the step's loss."""


class NonFiniteStepError(RuntimeError):
    """A step would have made the weights NaN or infinite. It was not applied; the message names the samples."""


class StepRunner:
    """Runs optimizer steps on one model. Every data-parallel rank calls it with the same number of micro-batches."""

    def __init__(
        self,
        parts: Sequence[DistributedDataParallel],
        optimizer: MegatronOptimizer,
        scheduler: OptimizerParamScheduler,
        evaluate: Evaluate,
    ) -> None:
        """`parts`: of the model on this rank, see `slime.megatron.model.parts_of`."""
        self.parts, self.optimizer, self.scheduler, self.evaluate = list(parts), optimizer, scheduler, evaluate
        config = self.parts[0].config
        self.data_parallel_size: int = parallel_state.get_data_parallel_world_size()
        # Gradients of single samples are looked at where one rank has the whole model.
        self._alone = parallel_state.get_model_parallel_group().size() * config.context_parallel_size == 1
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = optimizer.scale_loss

    def run(self, batches: Sequence[MicroBatch]) -> tuple[dict[str, float], LogProbGap]:
        """Forward, backward, check, clip, update.

        Args:
            batches: this rank's micro-batches, at least one.

        Returns:
            The step's metrics over all ranks (loss, pg_loss, pg_clipfrac, ppo_kl, entropy_loss, grad_norm, lr,
            weight_decay ...), and this rank's difference to the sampler.

        Raises:
            NonFiniteStepError: on every rank, when a sample of any rank or the gradient is not finite. Weights,
                optimizer and schedule are as before.
        """
        results = self._compute_gradients(batches)
        self._refuse_broken([name for result in results for name in result.broken], "its inputs or log-probs")
        self.optimizer.prepare_grads()
        norm = float(self.optimizer.get_grad_norm())
        if not math.isfinite(norm):
            self._refuse_broken(
                [name for batch in batches for name in self._broken_gradients(batch)] if self._alone else [],
                f"the gradient (norm {norm})",
                certain=True,
            )
        # Before the step: see `build_optimizer`.
        self.scheduler.step(1)
        self.optimizer.step()
        metrics, gap = self._gathered(results)
        rate = get_canonical_lr_for_logging(self.optimizer.param_groups)
        applied = {"lr": 0.0 if rate is None else float(rate), "weight_decay": float(self.scheduler.get_wd())}
        return {**metrics, "grad_norm": norm, **applied}, gap

    def _compute_gradients(self, batches: Sequence[MicroBatch]) -> list[MicroBatchResult]:
        self._clear_gradients()
        self.optimizer.zero_grad()
        forward = partial(self._forward_step, count=len(batches))
        return run_schedule(self.parts, batches, forward, batches[0].packed.tokens.shape[1], forward_only=False)

    def _clear_gradients(self) -> None:
        for part in self.parts:
            part.zero_grad_buffer()

    def _forward_step(self, iterator: Iterator[MicroBatch], model: DistributedDataParallel, count: int) -> Any:
        batch = next(iterator)
        packed = batch.packed

        def loss_function(logits: Tensor) -> tuple[Tensor, MicroBatchResult]:
            result = self.evaluate(logits, batch)
            # Megatron divides by the number of micro-batches and averages over ranks; our weights already hold the
            # denominators of the whole step, so both are taken back.
            return result.loss * (count * self.data_parallel_size), result

        return run_model(model, packed), loss_function

    def _refuse_broken(self, names: list[str], what: str, certain: bool = False) -> None:
        """Raise on all ranks when any rank has broken samples; `certain`: raise even when no sample stands out."""
        flag = torch.tensor([len(names)], device=next(self.parts[0].parameters()).device)
        dist.all_reduce(flag)
        if not int(flag) and not certain:
            return
        gathered: list[list[str]] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(gathered, names)
        everyone = [name for part in gathered for name in part]
        self._clear_gradients()
        listed = "; ".join(everyone[:8]) or "no single sample stands out"
        more = f" and {len(everyone) - 8} more" if len(everyone) > 8 else ""
        raise NonFiniteStepError(
            f"The optimizer step is refused, because {what} would make the weights not finite: {listed}{more}. "
            "Weights and optimizer are unchanged. Usual causes: a learning rate that is too high, or a damaged sample."
        )

    def _broken_gradients(self, batch: MicroBatch) -> list[str]:
        """Samples whose own gradient has no finite norm: one forward and one gradient for the share of each."""
        found = []
        (model,) = self.parts
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        begin = 0
        for sequence, length in zip(batch.sequences, batch.packed.response_lengths, strict=True):
            alone = replace(batch, tokens=_tokens_alone(batch.tokens, begin, begin + length))
            begin += length
            logits = run_model(model, batch.packed)
            loss = self.evaluate(logits, alone).loss
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            norms = [gradient.float().norm() for gradient in gradients if gradient is not None]
            if not bool(torch.isfinite(torch.stack(norms).norm())):
                found.append(f"sample {sequence.sample_index}")
        return found

    def _gathered(self, results: Sequence[MicroBatchResult]) -> tuple[dict[str, float], LogProbGap]:
        """Metrics over all data-parallel ranks, and this rank's gap, on every pipeline stage."""
        if not sees_outputs():
            return from_last_stage(None)
        gap = LogProbGap()
        for result in results:
            gap = gap.merged(result.gap)
        return from_last_stage((self._sum_over_ranks([result.metrics for result in results]), gap))

    def _sum_over_ranks(self, shares: Sequence[dict[str, Tensor]]) -> dict[str, float]:
        names = sorted(shares[0])
        total = torch.stack([torch.stack([share[name].double() for share in shares]).sum() for name in names])
        dist.all_reduce(total, group=parallel_state.get_data_parallel_group())
        return dict(zip(names, total.tolist(), strict=True))


def _tokens_alone(tokens: PolicyTokens, begin: int, end: int) -> PolicyTokens:
    """The same tokens, of which only those from `begin` to `end` train."""
    chosen = torch.zeros_like(tokens.weights)
    chosen[begin:end] = 1.0
    policy = tokens.policy_weights
    return replace(tokens, weights=tokens.weights * chosen, policy_weights=None if policy is None else policy * chosen)
