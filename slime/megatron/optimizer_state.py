"""The optimizer's part of a checkpoint, in a form that any later parallel layout can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from megatron.core.optimizer import MegatronOptimizer
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

# The state as whole tensors. Megatron's default layout, fully_sharded_model_space, cannot be loaded in 0.16.1
# ("ShardedTensor.flattened_range is not supported"). Ranks that share the state send their parts to the first of them:
# otherwise every one of them would hold all of it in host memory.
LAYOUT = {
    "distrib_optim_sharding_type": "fully_reshardable",
    "distrib_optim_fully_reshardable_mem_efficient": True,
    "chained_optim_avoid_prefix": True,
}


def has_stepped(optimizer: MegatronOptimizer) -> bool:
    """Whether the optimizer has moments: it gets them with its first step."""
    return any(part.optimizer.state for part in _parts(optimizer))


def state_to_save(optimizer: MegatronOptimizer, model_state: dict[str, Any]) -> dict[str, Any]:
    """Sharded state of an optimizer that has stepped, for the sharded state of its model. Collective."""
    state: dict[str, Any] = optimizer.sharded_state_dict(model_state, metadata=LAYOUT)
    return state


def state_to_load(optimizer: MegatronOptimizer, model_state: dict[str, Any]) -> dict[str, Any]:
    """What to ask the checkpoint for; the optimizer gets moments, of zero, if it has none. Collective."""
    for part in _parts(optimizer):
        if isinstance(part, DistributedOptimizer) and not part.optimizer.state:
            # Megatron 0.16.1 asks a fresh torch.optim.AdamW for the step that it stands at, and it has none.
            for parameter in (one for group in part.optimizer.param_groups for one in group["params"]):
                values = {name: torch.zeros_like(parameter, requires_grad=False) for name in ("exp_avg", "exp_avg_sq")}
                part.optimizer.state[parameter] = {"step": torch.zeros(()), **values}
    state: dict[str, Any] = optimizer.sharded_state_dict(model_state, is_loading=True, metadata=LAYOUT)
    return state


def load_state(optimizer: MegatronOptimizer, loaded: dict[str, Any]) -> None:
    """Take the state over that was read for `state_to_load`."""
    if not any(isinstance(part, DistributedOptimizer) for part in _parts(optimizer)):
        optimizer.load_state_dict(loaded)
        return
    parts = _parts(optimizer)
    states = [loaded] if len(parts) == 1 else [loaded[index] for index in sorted(loaded)]
    for part, state in zip(parts, states, strict=True):
        _load_distributed(cast(DistributedOptimizer, part), dict(state))


def _load_distributed(part: DistributedOptimizer, state: dict[str, Any]) -> None:
    """What Megatron does in one call, in two, around which three defects of 0.16.1 with torch's AdamW are put right.

    It expects each parameter's count of steps among the tensors of the checkpoint, where it is not. It gives all
    parameters one tensor for this count, which every one of them then advances: the bias correction of the moments
    would be wrong without a word. And it writes into views of weights that require gradients.
    """
    tensors = state.pop("param_state")
    state.pop("param_state_sharding_type")
    part.load_state_dict(state)
    moments = part.optimizer.state
    steps = {parameter: values.pop("step") for parameter, values in moments.items()}
    with torch.no_grad():
        part.load_parameter_state_from_fully_reshardable(tensors)
    for parameter, step in steps.items():
        moments[parameter]["step"] = step.clone()


def _parts(optimizer: MegatronOptimizer) -> Sequence[MegatronOptimizer]:
    """The optimizers that Megatron chains: one for dense weights, one for experts."""
    parts: Sequence[MegatronOptimizer] = getattr(optimizer, "chained_optimizers", [optimizer])
    return parts
