"""Megatron's data-parallel wrapper, Adam and learning-rate schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import MegatronOptimizer, OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from slime.megatron.host_optimizer import HostOptimizer
from slime.megatron.model import Model, parts_of


@dataclass(frozen=True)
class OptimizerSettings:
    """Numbers of Adam and its schedule, named as the flags are.

    Attributes:
        lr_warmup_iters: may be a fraction of a step (--lr-warmup-fraction).
        lr_decay_iters: step of the lowest rate; needed by all styles but ``constant``.
        weight_decay: at the first step, and at all others unless the style of its growth says otherwise.
        weight_decay_incr_iters: step of `end_weight_decay`.
    """

    lr: float
    min_lr: float = 0.0
    lr_warmup_iters: float = 0
    lr_warmup_init: float = 0.0
    lr_decay_iters: int | None = None
    lr_decay_style: str = "constant"
    weight_decay: float = 0.01
    end_weight_decay: float | None = None
    weight_decay_incr_iters: int = 0
    weight_decay_incr_style: str = "constant"
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8
    clip_grad: float = 1.0
    use_distributed_optimizer: bool = False
    optimizer_cpu_offload: bool = False
    optimizer_offload_fraction: float = 1.0
    overlap_cpu_optimizer_d2h_h2d: bool = False


def wrap_model(model: Model, settings: OptimizerSettings) -> list[DistributedDataParallel]:
    """The parts of `model` on this rank; after the last micro-batch gradients are averaged over data-parallel ranks.

    They are added up in float32. For the distributed optimizer each rank receives the averages of its own share of the
    weights alone.
    """
    options = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=False,
        use_distributed_optimizer=settings.use_distributed_optimizer,
    )
    return [DistributedDataParallel(config=model.config, ddp_config=options, module=part) for part in parts_of(model)]


def build_optimizer(
    wrapped: Sequence[DistributedDataParallel], settings: OptimizerSettings, dtype: torch.dtype
) -> tuple[MegatronOptimizer, OptimizerParamScheduler]:
    """Adam with decoupled weight decay (none on norms and biases), and the schedule of its rate and its weight decay.

    The schedule counts optimizer steps. It must be advanced *before* each step: step k of W warm-up steps then uses
    ``lr * k / W``. Advanced afterwards, the first step would have a rate of 0 and change nothing.
    """
    optimizer: MegatronOptimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=settings.lr,
            min_lr=settings.min_lr,
            weight_decay=settings.weight_decay,
            adam_beta1=settings.adam_beta1,
            adam_beta2=settings.adam_beta2,
            adam_eps=settings.adam_eps,
            clip_grad=settings.clip_grad,
            use_distributed_optimizer=settings.use_distributed_optimizer,
            bf16=dtype is torch.bfloat16,
            params_dtype=dtype,
        ),
        list(wrapped),
    )
    if settings.optimizer_cpu_offload:
        optimizer = HostOptimizer(
            optimizer.chained_optimizers, settings.optimizer_offload_fraction, settings.overlap_cpu_optimizer_d2h_h2d
        )
    scheduler = OptimizerParamScheduler(
        optimizer,
        init_lr=settings.lr_warmup_init,
        max_lr=settings.lr,
        min_lr=settings.min_lr,
        lr_warmup_steps=settings.lr_warmup_iters,
        # A constant rate does not use it, but it must exceed the warm-up.
        lr_decay_steps=settings.lr_decay_iters or settings.lr_warmup_iters + 1,
        lr_decay_style=settings.lr_decay_style,
        start_wd=settings.weight_decay,
        end_wd=settings.weight_decay if settings.end_weight_decay is None else settings.end_weight_decay,
        wd_incr_steps=settings.weight_decay_incr_iters,
        wd_incr_style=settings.weight_decay_incr_style,
        # The flags of this run decide, not those of the run that wrote the checkpoint; the step count is restored.
        use_checkpoint_opt_param_scheduler=False,
        override_opt_param_scheduler=True,
    )
    return optimizer, scheduler
