"""From the flags to what one engine is started with."""

from __future__ import annotations

from slime.config import REGISTRY, Config
from slime.sglang.launch import EngineSpec, Value

# Flags of the prefix `--sglang-` that are honoured elsewhere: the client's limit, and the port of each engine.
NOT_SERVER_ARGUMENTS = frozenset({"sglang_server_concurrency", "sglang_port"})


def server_arguments(config: Config) -> dict[str, Value]:
    """The `--sglang-*` flags that were given or derived, as arguments of the server."""
    arguments: dict[str, Value] = {}
    for flag in REGISTRY.values():
        if flag.source != "sglang" or flag.field in NOT_SERVER_ARGUMENTS:
            continue
        value = getattr(config, flag.field)
        if value is not None and value is not False:
            arguments[flag.name.removeprefix("--sglang-")] = value
    if config.use_rollout_routing_replay:
        arguments["enable-return-routed-experts"] = True
    return arguments


def engine_spec(config: Config, index: int) -> EngineSpec:
    """What engine number `index`, from 0, is started with."""
    return EngineSpec(
        model_path=config.hf_checkpoint,
        device="cpu" if config.device == "cpu" else "cuda",
        tensor_parallel=config.rollout_num_gpus_per_engine,
        port=None if config.sglang_port is None else config.sglang_port + index,
        seed=config.seed + index,
        arguments=server_arguments(config),
    )
