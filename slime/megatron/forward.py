"""Forward passes without gradient over many samples, a bounded number of tokens at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from slime.megatron.model import Decoder, Model, parts_of
from slime.megatron.packing import PackedBatch, run_model
from slime.megatron.pipeline import run_schedule
from slime.megatron.ranks import pack_for, tensors_from_last_stage

Mark = Callable[[Sequence[int], PackedBatch], None]
"""Called with the samples' positions and the packing of each pass before it runs."""
DEFAULT_MAX_TOKENS = 8192
"""Tokens of one forward pass, when --max-tokens-per-gpu does not say."""


class Scorable(Protocol):
    """What a forward pass needs of a sample: `Sample` and `TrainSequence` have it."""

    tokens: Any
    response_length: int
    rollout_routed_experts: Any


def read_responses(
    model: Model,
    samples: Sequence[Scorable],
    device: torch.device,
    max_tokens: int | None,
    read: Callable[[Tensor, PackedBatch], Tensor],
    chunks: Sequence[Sequence[int]] | None = None,
    mark: Mark | None = None,
) -> list[Tensor]:
    """Run `model` over the samples and read one number for each response token.

    Args:
        max_tokens: of one pass; a longer sample stands alone.
        read: from the outputs [rows, width, ...] and their packing to [T].
        chunks: the samples of each pass, as positions, instead of `max_tokens`: `TrainBatch.log_prob_indices`, of which
            every rank has the same number, since layers of a model may wait for other ranks.
        mark: see `RoutingReplay.old_pass`.

    Returns:
        Float32 [R_i] on the CPU for each sample, in their order.
    """
    results = [torch.zeros(0)] * len(samples)
    limit = max_tokens or DEFAULT_MAX_TOKENS
    passes = chunks or list(chunks_by_tokens([len(sample.tokens) for sample in samples], limit))
    batches: list[PackedBatch] = []
    for indices in passes:
        chosen = [samples[i] for i in indices]
        batches.append(
            pack_for(
                model.config,
                [torch.as_tensor(sample.tokens) for sample in chosen],
                [sample.response_length for sample in chosen],
                device,
            )
        )
        if mark is not None:
            mark(indices, batches[-1])
    for indices, batch, found in zip(passes, batches, _outputs(model, batches, read), strict=False):
        for index, part in zip(indices, found.split(batch.response_lengths), strict=True):
            results[index] = part.clone()
    return tensors_from_last_stage(results, [sample.response_length for sample in samples], device)


def _outputs(
    model: Model, batches: Sequence[PackedBatch], read: Callable[[Tensor, PackedBatch], Tensor]
) -> Iterator[Tensor]:
    """What is read of each batch, float32 on the CPU; nothing on a pipeline stage that sees no outputs."""
    if model.config.pipeline_model_parallel_size == 1:
        for batch in batches:
            with torch.no_grad():
                yield read(run_model(model, batch), batch).float().cpu()
        return

    def step(waiting: Iterator[PackedBatch], one: Decoder) -> Any:
        batch = next(waiting)
        return run_model(one, batch), lambda logits: (logits.new_zeros(()), read(logits, batch).float().cpu())

    # Interleaved stages take whole groups of micro-batches; what the last one gives again is not looked at.
    group = model.config.microbatch_group_size_per_vp_stage if len(parts_of(model)) > 1 else 1
    filled = [*batches, *(batches[-1] for _ in range(-len(batches) % group))]
    with torch.no_grad():
        yield from run_schedule(parts_of(model), filled, step, filled[0].tokens.shape[1], forward_only=True)


def chunks_by_tokens(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
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
