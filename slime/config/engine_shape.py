"""How one serving engine splits the model over its GPUs, as SGLang does it."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.config import Config

# Back ends of expert communication under which every GPU of the engine is a rank of expert parallelism.
ALL_TO_ALL = ("deepep", "mooncake")


@dataclass(frozen=True)
class EngineShape:
    """Tensor parallelism of each part of the model inside one engine, in GPUs.

    Attributes:
        gpus: of the engine.
        attention: `gpus`, divided by the data parallelism of the attention.
        dense: of the MLP of layers without experts.
        expert_parallel: ranks among which the experts are dealt out.
        expert: inside one routed expert.
        shared: inside the shared expert; 1 where each rank keeps the whole of it.
    """

    gpus: int
    attention: int
    dense: int
    expert_parallel: int
    expert: int
    shared: int


def engine_shape(config: Config) -> EngineShape:
    """The shape that the flags give every engine; sizes that do not divide are rounded down (a rule refuses them)."""
    gpus = config.rollout_num_gpus_per_engine
    copies = (config.sglang_dp_size or 1) if config.sglang_enable_dp_attention else 1
    all_to_all = config.sglang_moe_a2a_backend in ALL_TO_ALL
    expert_parallel = gpus if all_to_all else config.sglang_ep_size or 1
    return EngineShape(
        gpus=gpus,
        attention=max(gpus // copies, 1),
        dense=config.sglang_moe_dense_tp_size or gpus,
        expert_parallel=expert_parallel,
        expert=max(gpus // expert_parallel, 1),
        shared=1 if all_to_all else gpus,
    )
