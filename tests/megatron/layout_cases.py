"""Bodies of the processes that compute one family's loss and gradients at one parallel layout."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from slime.megatron.parallel import ParallelSettings
from slime.megatron.process import Device

from .families import sequences

TEMPERATURE = 0.7
MTP_FACTOR = 0.3
MICRO_BATCHES = ((0, 2), (1, 3))
"""Which sequences stand in which micro-batch; with two data-parallel ranks each has one."""
THREE_MICRO_BATCHES = ((0, 2), (1,), (3,))
"""For interleaved pipelines of three ranks, which take at least as many at a time."""


def weights_of(index: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random weights of the log-probs and of the entropies of one sequence: the loss is their weighted sum."""
    generator = torch.Generator().manual_seed(100 + index)
    return torch.randn(2, count, generator=generator).unbind()


def measure(
    folder: Path, parallel: ParallelSettings, recompute: bool, device: torch.device, fp8: bool = False
) -> dict[str, Any]:
    """Loss, whole gradients and log-probs of one layout; needs joined process groups of its sizes.

    Returns:
        loss, over all micro-batches; gradients by Hugging Face name (rank 0's, the same on each); weights likewise.
    """
    from megatron.core import parallel_state

    from slime.megatron.fp8 import Fp8Settings
    from slime.megatron.gather import gather_hf_tensors
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings, Recompute
    from slime.megatron.pipeline import run_schedule
    from slime.weights.hf_config import read_config
    from slime.weights.mtp import with_mtp

    whole = read_config(folder)
    config = with_mtp(whole, whole.mtp_available)
    compute = ComputeSettings(
        recompute=Recompute() if recompute else None, fp8=Fp8Settings("blockwise", "hybrid") if fp8 else None
    )
    model = build_model(config, device, compute, parallel)
    load_hf_weights(model, config, folder)
    wrapped = wrapped_parts(model)
    size, rank = parallel_state.get_data_parallel_world_size(), parallel_state.get_data_parallel_rank()
    split = MICRO_BATCHES if parallel.pipeline < 3 else THREE_MICRO_BATCHES
    batches = [_batch(indices, model.config, config.sparse is not None, device) for indices in split[rank::size]]
    forward = partial(weighted_loss, count=len(batches) * size)
    results = run_schedule(wrapped, batches, forward, batches[0][1].tokens.shape[1], forward_only=False)
    return {
        "loss": whole_loss(results, parallel, device),
        "gradients": {name: grad.cpu().clone() for name, grad in gather_hf_tensors(model, config, gradient_or_zero)},
        "weights": {name: tensor.cpu().clone() for name, tensor in gather_hf_tensors(model, config)},
    }


def wrapped_parts(model: Any) -> list[Any]:
    """The model's parts in Megatron's data parallelism, with empty float32 gradients."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads

    from slime.megatron.model import parts_of

    settings = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    wrapped = [DistributedDataParallel(model.config, settings, part) for part in parts_of(model)]
    for part in wrapped:
        part.zero_grad_buffer()
    model.config.finalize_model_grads_func = finalize_model_grads
    return wrapped


def whole_loss(results: list[Any], parallel: ParallelSettings, device: torch.device) -> float:
    """The sum over micro-batches and data-parallel ranks, known to the first stages of a pipeline too."""
    from megatron.core import parallel_state

    loss = torch.tensor([sum(float(part) for part in results)], dtype=torch.float64, device=device)
    dist.all_reduce(loss, group=parallel_state.get_data_parallel_group())
    if parallel.pipeline > 1:
        group = parallel_state.get_pipeline_model_parallel_group()
        dist.broadcast(loss, parallel_state.get_pipeline_model_parallel_last_rank(), group)
    return float(loss)


def gradient_or_zero(tensor: torch.Tensor) -> torch.Tensor:
    """What has none (a router's correction bias, an indexer that does not learn) counts as 0."""
    return tensor.main_grad if hasattr(tensor, "main_grad") else torch.zeros_like(tensor)


def _batch(indices: tuple[int, ...], settings: Any, aligned: bool, device: torch.device) -> Any:
    from slime.megatron.ranks import pack_for

    tokens = [sequences(aligned)[i] for i in indices]
    return indices, pack_for(settings, tokens, [len(one) // 2 for one in tokens], device)


def weighted_loss(iterator: Any, model: Any, count: int) -> Any:
    from megatron.core import parallel_state

    from slime.megatron.mtp import loss_ahead
    from slime.megatron.packing import run_model
    from slime.megatron.ranks import whole_responses
    from slime.megatron.vocab_parallel import token_scores

    indices, packed = next(iterator)

    def loss(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = logits.flatten(0, 1).index_select(0, packed.logit_rows)
        group = parallel_state.get_tensor_model_parallel_group()
        scores = token_scores(chosen, packed.targets, TEMPERATURE, group)
        scores = tuple(whole_responses(part, packed) for part in scores)
        weights = [weights_of(i, n) for i, n in zip(indices, packed.response_lengths, strict=True)]
        parts = (torch.cat([pair[kind] for pair in weights]).to(logits.device) for kind in (0, 1))
        total = sum((values * weight).sum() for values, weight in zip(scores, parts, strict=True))
        ahead = packed.take_logits_ahead()
        if ahead is not None:
            ahead_logits, places = ahead
            every = torch.ones(sum(packed.response_lengths), dtype=torch.bool, device=logits.device)
            total = total + MTP_FACTOR * loss_ahead(ahead_logits, places, every, 1, TEMPERATURE)
        # Megatron divides by the micro-batches of this rank and averages over ranks; both are taken back.
        return total * count, total.detach()

    return run_model(model, packed), loss


Job = tuple[str, Path, ParallelSettings, bool]
"""Name of the result, checkpoint, layout, and whether activations are computed again."""


def run_layouts(
    rank: int, ranks: int, port: int, jobs: list[Job], out: Path, device: Device = "cpu", fp8: bool = False
) -> None:
    """One of `ranks` processes: every job in turn; rank 0 writes what `measure` returned."""
    from megatron.core import parallel_state

    from slime.megatron import process

    torch.set_num_threads(1)
    results = {}
    for name, folder, parallel, recompute in jobs:
        if dist.is_initialized():
            parallel_state.destroy_model_parallel()
            process.initialize_megatron(process.ProcessSpec(device=device, parallel=parallel))
        else:
            process.start(
                process.ProcessSpec(
                    device, rank, ranks, "127.0.0.1", port, local_rank=rank, parallel=parallel, timeout_minutes=2
                )
            )
        on = process.ProcessSpec(device, local_rank=rank).torch_device
        results[name] = measure(folder, parallel, recompute, on, fp8)
        if rank == 0:
            torch.save(results, out)
    process.stop()
