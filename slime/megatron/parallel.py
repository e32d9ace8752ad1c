"""Sizes of the model's parallel groups."""

from __future__ import annotations

from dataclasses import dataclass


class LayoutError(ValueError):
    """A model cannot be laid out over the ranks like this; the message has the numbers and what is possible."""


@dataclass(frozen=True)
class ParallelSettings:
    """Sizes of the parallel groups, as the flags are named.

    Attributes:
        contiguous_context: how the tokens of a row are shared, see `slime.megatron.context_parallel`.
        expert_tensor: None = as `tensor`.
        first_stage_layers, last_stage_layers: of an uneven pipeline; None = even.
        virtual: parts of the model on each rank of a pipeline, which a micro-batch goes round by round; None = one.
        virtual_group: micro-batches that pass one part before the next one begins; None = `pipeline`.
    """

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    contiguous_context: bool = False
    expert: int = 1
    expert_tensor: int | None = None
    sequence_parallel: bool = False
    first_stage_layers: int | None = None
    last_stage_layers: int | None = None
    virtual: int | None = None
    virtual_group: int | None = None


ALONE = ParallelSettings()
"""One process."""
