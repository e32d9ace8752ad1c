"""Routing replay: a mixture of experts trains with the experts that were chosen before, whatever its router says now.

A token whose router changes its mind between two passes goes through other experts, and the ratio of its probabilities
says nothing about the policy any more. So the choice is kept and given back: that of the pass that made the old
log-probs (--use-routing-replay), or the sampler's (--use-rollout-routing-replay; "R3", Ma et al., arXiv:2510.11370).
Only the choice is replayed. The weights of the chosen experts are computed from the router's logits of the pass in
hand, and gradients flow through them.

What a router does with a micro-batch is written on the micro-batch (``packed.sequences.routes``), which reaches every
layer, in the forward pass and when a layer is computed again for the backward pass. So it does not matter in which
order a pipeline interleaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.transformer.moe.moe_layer import MoELayer
from megatron.core.transformer.transformer_block import TransformerBlock
from megatron.core.transformer.transformer_layer import TransformerLayer
from torch import Tensor

from slime.config import Config
from slime.data.routes import RoutesError, RouteShape, route_shape
from slime.megatron.attention import stream_of
from slime.megatron.context_parallel import Stream, gather_rows, own_rows
from slime.megatron.forward import Mark, Scorable
from slime.megatron.packing import PackedBatch
from slime.weights.dimensions import HFModelConfig

TopK = tuple[Tensor, Tensor]
"""Scores of the chosen experts and their numbers, both [rows, top-k]."""


@dataclass
class BatchRoutes:
    """What the routers do with one micro-batch. L = this rank's layers with experts, in their order.

    Attributes:
        given: [rows, L, top-k] experts to take, on the model's device; None = the routers choose.
        known: bool [rows], which rows of `given` are filled; in the others (padding, a sequence's last token, which the
            sampler never routed) the routers choose.
        recorded: [rows, top-k] what was chosen, by zero-based layer, on the CPU; None = nobody wants to know.
    """

    given: Tensor | None = None
    known: Tensor | None = None
    recorded: dict[int, Tensor] | None = None


@dataclass
class _Choice:
    """The choice of one router, in the place that Megatron has for it (`TopKRouter.router_replay`).

    Attributes:
        layer: zero-based number of the layer.
        column: of `BatchRoutes.given`.
        routes: of the micro-batch in hand.
    """

    layer: int
    column: int
    dtype: torch.dtype
    routes: BatchRoutes = field(default_factory=BatchRoutes)

    def get_replay_topk(
        self,
        scores: Tensor,
        topk: int,
        num_groups: int | None,
        group_topk: int | None,
        default_compute_topk: Callable[..., TopK],
    ) -> TopK:
        """Called by Megatron's router instead of its own top-k.

        Args:
            scores: [rows, experts] that the choice is made by.
            default_compute_topk: the router's own choice.

        Raises:
            RoutesError: as many rows are not given.
        """
        own, chosen = default_compute_topk(scores, topk, num_groups=num_groups, group_topk=group_topk)
        routes = self.routes
        if routes.recorded is not None:
            routes.recorded[self.layer] = chosen.to(self.dtype).cpu()
        if routes.given is None or routes.known is None:
            return own, chosen
        if routes.given.shape[::2] != chosen.shape:
            raise RoutesError(
                f"layer {self.layer} routes {list(chosen.shape)} tokens and experts, and the micro-batch brings "
                f"{list(routes.given.shape[::2])} of an earlier pass."
            )
        chosen = torch.where(routes.known[:, None], routes.given[:, self.column].long(), chosen)
        return scores.gather(1, chosen), chosen


Mode = Literal["off", "recorded", "sampled"]
"""Which choice is replayed: none, that of the pass of the old log-probs, or the sampler's."""


class RoutingReplay:
    """Of one model: makes its routers record or replay what a micro-batch says, and carries routes between passes.

    Attributes:
        layers: zero-based numbers of this rank's layers with experts.
        routes: of each sequence of the round in hand [S, layers, top-k] on the CPU, or one row fewer; None where they
            are not known.
    """

    def __init__(self, model: torch.nn.Module, shape: RouteShape | None, mode: Mode) -> None:
        """
        Args:
            model: this rank's part of the model, with all of its virtual stages.
            shape: of the model's routes; None for a mode that is off.
        """
        self.mode = mode
        self.layers: list[int] = []
        self.routes: list[Tensor | None] = []
        self._lengths: list[int] = []
        self._passes: list[tuple[Sequence[int], PackedBatch]] = []
        if shape is None or mode == "off":
            return
        self.shape = shape
        self._dtype = torch.from_numpy(np.zeros(0, shape.dtype)).dtype
        with_experts = sorted(_layers_with_experts(model), key=lambda layer: layer.layer_number)
        self.layers = [layer.layer_number - 1 for layer in with_experts]
        for column, layer in enumerate(with_experts):
            choice = _Choice(self.layers[column], column, self._dtype)
            layer.mlp.router.router_replay = choice
            layer.register_forward_pre_hook(partial(_take_routes, choice), with_kwargs=True)

    @property
    def wanted(self) -> RouteShape | None:
        """What routes must come with the samples; None = none."""
        return self.shape if self.mode == "sampled" else None

    def start(self, samples: Sequence[Scorable]) -> None:
        """Begin a round: take the routes that came with the samples, or forget those of the last round."""
        self.routes = [None] * len(samples)
        self._lengths = [len(one.tokens) for one in samples]
        if self.mode == "sampled":
            sampled = [one.rollout_routed_experts for one in samples]
            self.routes = [
                None if one is None else torch.from_numpy(one[:, self.layers].astype(self.shape.dtype))
                for one in sampled
            ]

    @contextmanager
    def old_pass(self) -> Iterator[Mark | None]:
        """Around the pass of the old log-probs: routers replay the sampler's choice, or record theirs.

        Yields:
            what the pass calls with each of its batches. Leaving is collective over the ranks of one stage.
        """
        if self.mode != "recorded":
            yield None if self.mode == "off" else self.give
            return
        self._passes.clear()
        yield self._mark_recorded
        for indices, packed in self._passes:
            parts = self._gathered(packed).split(packed.sequences.lengths)
            for index, part in zip(indices, parts, strict=False):  # a row may end with padding
                self.routes[index] = part[: self._lengths[index]].clone()
            del packed.sequences.routes
        self._passes.clear()

    def _mark_recorded(self, indices: Sequence[int], packed: PackedBatch) -> None:
        packed.sequences.routes = BatchRoutes(recorded={})
        self._passes.append((indices, packed))

    def give(self, indices: Sequence[int], packed: PackedBatch) -> None:
        """Make the passes of `packed` replay the routes of its sequences, which are those at `indices`.

        Raises:
            RoutesError: a sequence has none.
        """
        if self.mode == "off":
            return
        lengths: list[int] = packed.sequences.lengths
        given = torch.zeros(sum(lengths), len(self.layers), self.shape.chosen, dtype=self._dtype)
        known = torch.zeros(sum(lengths), dtype=torch.bool)
        start = 0
        for index, length in zip(indices, lengths, strict=False):
            routes = self.routes[index]
            if routes is None:
                raise RoutesError(f"sequence {index} of the round has no routes to replay")
            given[start : start + len(routes)] = routes
            known[start : start + len(routes)] = True
            start += length
        device = packed.tokens.device
        rows = [_rows_of_rank(one, stream_of(packed.sequences)).to(device) for one in (given, known)]
        packed.sequences.routes = BatchRoutes(*rows)

    def _gathered(self, packed: PackedBatch) -> Tensor:
        """[T, L, top-k] of the whole row, on the CPU, from the parts that the ranks recorded."""
        device, lengths, recorded = packed.tokens.device, packed.sequences.lengths, packed.sequences.routes.recorded
        if not self.layers:
            return torch.zeros(sum(lengths), 0, self.shape.chosen, dtype=self._dtype)
        # As bytes, which every backend can send.
        part = torch.stack([recorded[layer] for layer in self.layers], dim=1).to(device).view(torch.uint8)
        tensor = parallel_state.get_tensor_model_parallel_group()
        if dist.get_world_size(tensor) > 1:
            pieces = [torch.empty_like(part) for _ in range(dist.get_world_size(tensor))]
            dist.all_gather(pieces, part, group=tensor)
            part = torch.cat(pieces)
        stream = stream_of(packed.sequences)
        return gather_rows(part, stream, parallel_state.get_context_parallel_group()).cpu().view(self._dtype)


def routing_replay(config: Config, dimensions: HFModelConfig, model: torch.nn.Module) -> RoutingReplay:
    """As --use-routing-replay and --use-rollout-routing-replay say; the second is stronger.

    Raises:
        RoutesError: the model has no experts.
    """
    if config.use_rollout_routing_replay:
        return RoutingReplay(model, route_shape(dimensions), "sampled")
    if config.use_routing_replay:
        return RoutingReplay(model, route_shape(dimensions), "recorded")
    return RoutingReplay(model, None, "off")


def _layers_with_experts(model: torch.nn.Module) -> list[TransformerLayer]:
    """Decoder layers; those of next-token heads stand outside of the block and keep their own choice."""
    blocks = [module for module in model.modules() if isinstance(module, TransformerBlock)]
    return [layer for block in blocks for layer in block.layers if isinstance(layer.mlp, MoELayer)]


def _take_routes(choice: _Choice, layer: TransformerLayer, arguments: Any, keywords: dict[str, Any]) -> None:
    """Before a layer computes: its router looks at the micro-batch that came in."""
    choice.routes = getattr(keywords["packed_seq_params"], "routes", None) or BatchRoutes()


def _rows_of_rank(whole: Tensor, stream: Stream) -> Tensor:
    """The rows of a packed row that this rank's routers see: its part of the context, cut for sequence parallelism."""
    part = own_rows(whole, stream, parallel_state.get_context_parallel_group())
    # Experts over several tensor-parallel ranks always come with sequence parallelism.
    return part.chunk(parallel_state.get_tensor_model_parallel_world_size())[
        parallel_state.get_tensor_model_parallel_rank()
    ]
