"""Routing replay: the reference with given experts, and bodies of the processes that replay at one parallel layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from slime.data.routes import RouteShape, route_shape
from slime.megatron.parallel import ParallelSettings
from slime.weights.hf_config import read_config

from .families import sequences
from .layout_cases import MICRO_BATCHES, TEMPERATURE, gradient_or_zero, weighted_loss, whole_loss, wrapped_parts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CPU = torch.device("cpu")
MOVED = 0.05
"""Standard deviation of what is added to every weight between the two passes; routers change their mind at it."""


@dataclass
class Scored:
    """A sequence as forward passes take it."""

    tokens: torch.Tensor
    response_length: int
    rollout_routed_experts: np.ndarray | None = None


def samples(with_routes: RouteShape | None = None) -> list[Scored]:
    """The sequences of the families' tests; with experts drawn at random, which no router would choose."""
    made = [Scored(tokens, len(tokens) // 2) for tokens in sequences()]
    random = np.random.default_rng(7)
    for one in made if with_routes is not None else ():
        assert with_routes is not None
        draws = random.random((len(one.tokens) - 1, with_routes.layers, with_routes.count))
        one.rollout_routed_experts = draws.argsort(-1)[..., : with_routes.chosen].astype(np.int32)
    return made


def routers(model: PreTrainedModel) -> list[tuple[int, Any]]:
    """Layer number and gate of every layer with experts of transformers' model."""
    layers: Any = model.model.layers
    return [(number, layer.mlp.gate) for number, layer in enumerate(layers) if hasattr(layer.mlp, "gate")]


def record(model: PreTrainedModel, tokens: torch.Tensor) -> dict[int, torch.Tensor]:
    """The experts [S, top-k] that transformers' routers choose, by layer."""
    found: dict[int, torch.Tensor] = {}

    def keep(number: int, _module: Any, _inputs: Any, outputs: Any) -> None:
        found[number] = outputs[2]

    hooks = [gate.register_forward_hook(partial(keep, number)) for number, gate in routers(model)]
    with torch.no_grad():
        model(tokens[None])
    for hook in hooks:
        hook.remove()
    return found


def force(model: PreTrainedModel, routes: dict[int, torch.Tensor]) -> None:
    """Make transformers' model send the next sequence to these experts; their weights as the definitions read."""
    config: Any = model.config
    sigmoid = hasattr(config, "routed_scaling_factor")

    def forward(gate: Any, chosen: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = hidden.reshape(-1, hidden.shape[-1]).float() @ gate.weight.float().T
        scores = logits.sigmoid() if sigmoid else logits.exp() / logits.exp().sum(-1, keepdim=True)
        weights = scores.gather(1, chosen)
        if config.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        return logits, weights * (config.routed_scaling_factor if sigmoid else 1.0), chosen

    for number, gate in routers(model):
        gate.forward = partial(forward, gate, routes[number].long())


def move(model: PreTrainedModel, folder: Path) -> Path:
    """Add noise to every weight, as training would, and save."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * MOVED)
    model.save_pretrained(folder)
    return folder


def reference_total(
    model: PreTrainedModel, sequence: Scored, weights: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Weighted sum of log-probs and entropies of one response, as `layout_cases` computes it."""
    first = len(sequence.tokens) - sequence.response_length
    scores = (model(sequence.tokens[None]).logits[0].float() / TEMPERATURE).log_softmax(-1)[first - 1 : -1]
    log_probs = scores.gather(1, sequence.tokens[first:, None])[:, 0]
    entropies = -(scores.exp() * scores).sum(-1)
    return (log_probs * weights[0]).sum() + (entropies * weights[1]).sum()


Kind = Literal["recorded", "sampled"]


def measure_replay(
    before: Path, after: Path, parallel: ParallelSettings, recompute: bool, mode: Kind, device: torch.device = CPU
) -> dict[str, Any]:
    """Old log-probs with the weights `before`; loss and gradients of their experts' replay with those `after`.

    Returns:
        log_probs of this rank's samples; loss over all micro-batches; gradients by Hugging Face name; routes of this
        rank's samples and layers.
    """
    from megatron.core import parallel_state

    from slime.megatron.forward import read_responses
    from slime.megatron.gather import gather_hf_tensors
    from slime.megatron.log_probs import score_tokens
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings, Recompute
    from slime.megatron.pipeline import run_schedule
    from slime.megatron.ranks import pack_for
    from slime.megatron.routing_replay import RoutingReplay

    config = read_config(before)
    shape = route_shape(config)
    model = build_model(config, device, ComputeSettings(recompute=Recompute() if recompute else None), parallel)
    load_hf_weights(model, config, before)
    replay = RoutingReplay(model, shape, mode)
    size, rank = parallel_state.get_data_parallel_world_size(), parallel_state.get_data_parallel_rank()
    own = MICRO_BATCHES[rank::size]
    everything = samples(shape if mode == "sampled" else None)
    chosen = [everything[i] for indices in own for i in indices]
    replay.start(chosen)
    with replay.old_pass() as mark:
        # Other micro-batches than those of the step: each sequence alone, the last first.
        alone = [[place] for place in reversed(range(len(chosen)))]
        old = read_responses(
            model,
            chosen,
            device,
            None,
            lambda out, packed: score_tokens(out, packed, TEMPERATURE).log_probs,
            alone,
            mark,
        )
    load_hf_weights(model, config, after)
    wrapped = wrapped_parts(model)
    batches, place = [], 0
    for indices in own:
        parts = [everything[i] for i in indices]
        packed = pack_for(model.config, [one.tokens for one in parts], [one.response_length for one in parts], device)
        replay.give(range(place, place + len(parts)), packed)
        place += len(parts)
        batches.append((indices, packed))
    forward = partial(weighted_loss, count=len(batches) * size)
    results = run_schedule(wrapped, batches, forward, batches[0][1].tokens.shape[1], forward_only=False)
    return {
        "log_probs": [one.cpu() for one in old],
        "loss": whole_loss(results, parallel, device),
        "gradients": {name: grad.cpu().clone() for name, grad in gather_hf_tensors(model, config, gradient_or_zero)},
        "routes": replay.routes,
        "layers": replay.layers,
    }


Job = tuple[str, Path, Path, ParallelSettings, bool, Kind]
"""Name of the result, checkpoints before and after, layout, recomputation, and whose experts are replayed."""


def run_replays(rank: int, ranks: int, port: int, jobs: Sequence[Job], out: Path) -> None:
    """One of `ranks` processes: every job in turn; each rank writes what `measure_replay` returned."""
    from megatron.core import parallel_state

    from slime.megatron import process

    torch.set_num_threads(1)
    results = {}
    for name, before, after, parallel, recompute, mode in jobs:
        if dist.is_initialized():
            parallel_state.destroy_model_parallel()
            process.initialize_megatron(process.ProcessSpec(device="cpu", parallel=parallel))
        else:
            process.start(
                process.ProcessSpec("cpu", rank, ranks, "127.0.0.1", port, parallel=parallel, timeout_minutes=2)
            )
        results[name] = measure_replay(before, after, parallel, recompute, mode)
        torch.save(results, out / f"rank{rank}.pt")
    process.stop()
