"""Forward passes without gradient over many samples, a bounded number of tokens at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from slime.megatron.packing import PackedBatch, pack, run_model

DEFAULT_MAX_TOKENS = 8192
"""Tokens of one forward pass, when --max-tokens-per-gpu does not say."""


class Scorable(Protocol):
    """What a forward pass needs of a sample: `Sample` and `TrainSequence` have it."""

    tokens: Any
    response_length: int


def read_responses(
    model: torch.nn.Module,
    samples: Sequence[Scorable],
    device: torch.device,
    max_tokens: int | None,
    read: Callable[[Tensor, PackedBatch], Tensor],
    chunks: Sequence[Sequence[int]] | None = None,
) -> list[Tensor]:
    """Run `model` over the samples and read one number for each response token.

    Args:
        max_tokens: of one pass; a longer sample stands alone.
        read: from the outputs [rows, width, ...] and their packing to [T].
        chunks: the samples of each pass, as positions, instead of `max_tokens`: `TrainBatch.log_prob_indices`, of which
            every rank has the same number, since layers of a model may wait for other ranks.

    Returns:
        Float32 [R_i] on the CPU for each sample, in their order.
    """
    results = [torch.zeros(0)] * len(samples)
    passes = chunks or chunks_by_tokens([len(sample.tokens) for sample in samples], max_tokens or DEFAULT_MAX_TOKENS)
    for indices in passes:
        chosen = [samples[i] for i in indices]
        packed = pack(
            [torch.as_tensor(sample.tokens) for sample in chosen],
            [sample.response_length for sample in chosen],
            device,
        )
        with torch.no_grad():
            found = read(run_model(model, packed), packed)
        for index, part in zip(indices, found.float().cpu().split(packed.response_lengths), strict=True):
            results[index] = part.clone()
    return results


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
