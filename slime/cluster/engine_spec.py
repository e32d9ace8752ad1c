"""From the flags to what each engine is started with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slime.config import REGISTRY, Config
from slime.config.serving_groups import Kind, ServingGroup
from slime.config.sglang_table import server_arguments as known_arguments
from slime.sglang.launch import EngineSpec, Value

# Flags of the prefix `--sglang-` that are honoured elsewhere: the client's limit, and the port of each engine.
NOT_SERVER_ARGUMENTS = frozenset({"sglang_server_concurrency", "sglang_port"})

# What a prefill or a decode engine is started with besides. A decode engine is told by the router which prefill engine
# holds a request, so prefill engines take the room that the request names, and decode engines share evenly.
ROLE_ARGUMENTS: Mapping[Kind, Mapping[str, Value]] = {
    "prefill": {"disaggregation-mode": "prefill", "load-balance-method": "follow_bootstrap_room"},
    "decode": {"disaggregation-mode": "decode", "load-balance-method": "round_robin"},
}
# A decode engine receives its KV cache, and has no prefixes of its own to keep in host memory.
NOT_FOR_DECODE = ("enable-hierarchical-cache", "hicache-")


@dataclass(frozen=True)
class Engine:
    """One engine of the run.

    Attributes:
        name: how messages and logs call it: "engine 0" of the trained model, "judge engine 3" of another.
        group: what it belongs to.
        spec: what it is started with.
        bundle: its first bundle among those of the engines, from 0.
    """

    name: str
    group: ServingGroup
    spec: EngineSpec
    bundle: int

    @property
    def log_name(self) -> str:
        """Name of its log file."""
        return self.name.replace(" ", "-") + ".log"


def engines(config: Config, groups: tuple[ServingGroup, ...], policy: str) -> Iterator[Engine]:
    """Every engine of the run, in the order of its GPUs.

    Args:
        config: the resolved configuration.
        groups: see `slime.config.serving_groups.serving_groups`.
        policy: name of the model that takes the trainer's weights.
    """
    index = bundle = 0
    for group in groups:
        for number in range(group.engines):
            name = "engine" if group.kind == "regular" else f"{group.kind} engine"
            name = name if group.model == policy else f"{group.model} {name}"
            spec = engine_spec(config, index, group)
            yield Engine(f"{name} {index}", group, spec, bundle + number * group.gpus_per_engine)
            index += 1
        bundle += group.gpus


def server_arguments(
    config: Config, kind: Kind = "regular", overrides: Mapping[str, Any] | None = None
) -> dict[str, Value]:
    """The `--sglang-*` flags that were given or derived, as arguments of the server.

    Args:
        config: the resolved configuration.
        kind: what the engine does.
        overrides: of the engine's group; they win over the flags.
    """
    given = {
        flag.name.removeprefix("--sglang-"): getattr(config, flag.field)
        for flag in REGISTRY.values()
        if flag.source == "sglang" and flag.field not in NOT_SERVER_ARGUMENTS
    }
    arguments: dict[str, Value] = {}
    for name, value in {**given, **(overrides or {})}.items():
        known = known_arguments()[name]
        if value is False and known.negatable and known.default is not False:
            arguments[f"no-{name}"] = True
        elif value is not None and value is not False:
            arguments[name] = value
    if kind == "decode":
        arguments = {name: value for name, value in arguments.items() if not name.startswith(NOT_FOR_DECODE)}
    return {**ROLE_ARGUMENTS.get(kind, {}), **arguments}


def engine_spec(config: Config, index: int, group: ServingGroup) -> EngineSpec:
    """What engine number `index` of the run, from 0, is started with; it belongs to `group`."""
    arguments = server_arguments(config, group.kind, group.overrides)
    if config.use_rollout_routing_replay and group.update_weights:
        arguments["enable-return-routed-experts"] = True
    return EngineSpec(
        model_path=group.model_path or config.hf_checkpoint,
        device="cpu" if config.device == "cpu" else "cuda",
        tensor_parallel=group.gpus_per_engine,
        port=None if config.sglang_port is None else config.sglang_port + index,
        bootstrap=group.kind == "prefill",
        seed=config.seed + index,
        arguments=arguments,
    )
