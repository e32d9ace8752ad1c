"""What the ranks of one copy of a model do together: which part of a batch each takes, and who tells whom the result.

Data-parallel ranks train on different samples. The ranks of one copy (tensor, context and pipeline parallel) work on
the same samples; of a pipeline, only the last stage sees the model's outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor

from slime.megatron.context_parallel import join_values
from slime.megatron.packing import PackedBatch, pack

T = TypeVar("T")


def pack_for(
    settings: TransformerConfig,
    sequences: Sequence[Tensor],
    response_lengths: Sequence[int],
    device: torch.device,
) -> PackedBatch:
    """Pack for this rank: filled up as sequence and context parallelism ask, and cut to its part of the context.

    Args:
        settings: of the model, with the sizes of its groups.
    """
    return pack(
        sequences,
        response_lengths,
        device,
        row_multiple=settings.tensor_model_parallel_size if settings.sequence_parallel else 1,
        context=(parallel_state.get_context_parallel_rank(), parallel_state.get_context_parallel_world_size()),
        mtp=settings.mtp_num_layers is not None,
        contiguous=settings.contiguous_context,
    )


def whole_responses(values: Tensor, packed: PackedBatch) -> Tensor:
    """[T, ...] values of all response tokens on every context-parallel rank, from those that each has."""
    if packed.places is None:
        return values
    count = sum(packed.response_lengths)
    return join_values(values, packed.places, count, parallel_state.get_context_parallel_group())


def sees_outputs() -> bool:
    """True on the pipeline's last stage."""
    return bool(parallel_state.is_pipeline_last_stage())


def from_last_stage(found: T | None) -> T:
    """What the last stage of this pipeline found, on all its stages. Small Python values of numbers and texts.

    Raises:
        RuntimeError: the last stage has nothing to tell.
    """
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        box = [found]
        source = parallel_state.get_pipeline_model_parallel_last_rank()
        dist.broadcast_object_list(box, source, group=parallel_state.get_pipeline_model_parallel_group())
        found = box[0]
    if found is None:
        raise RuntimeError("the last pipeline stage has nothing to tell.")
    return found


def tensors_from_last_stage(found: Sequence[Tensor], lengths: Sequence[int], device: torch.device) -> list[Tensor]:
    """Float32 tensors of these lengths on the CPU: those of the last stage, on all stages of this pipeline."""
    if parallel_state.get_pipeline_model_parallel_world_size() == 1:
        return list(found)
    joined = torch.cat(list(found)).to(device) if sees_outputs() else torch.empty(sum(lengths), device=device)
    source = parallel_state.get_pipeline_model_parallel_last_rank()
    dist.broadcast(joined, source, group=parallel_state.get_pipeline_model_parallel_group())
    return list(joined.cpu().split(list(lengths)))
