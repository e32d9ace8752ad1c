"""Which process sits on which GPU of which node, counted from the flags alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slime.config.config import Config
from slime.config.serving_groups import ServingGroup, serving_groups


@dataclass(frozen=True)
class TrainRank:
    """One training process and its place in every dimension of parallelism.

    ``rank`` counts as Megatron does in its order tp-cp-ep-dp-pp: tensor parallelism varies fastest, pipeline
    parallelism slowest. ``expert`` is the rank among the GPUs that share out the experts.
    """

    rank: int
    tensor: int
    context: int
    data: int
    pipeline: int
    expert: int


@dataclass(frozen=True)
class Device:
    """One GPU (on a CPU: one process slot), with what runs on it.

    ``engine_rank`` is the place of the GPU inside its engine; an engine that spans nodes has a process on each.
    """

    device: int
    node: int
    gpu: int
    train: TrainRank | None
    engine: int | None
    engine_rank: int | None
    kind: str | None


@dataclass(frozen=True)
class Processes:
    """Processes of one kind, with the GPUs of each."""

    process: str
    count: int
    gpus: int


def train_rank(config: Config, rank: int) -> TrainRank:
    """The coordinates of a training process."""
    tensor, context = config.tensor_model_parallel_size, config.context_parallel_size
    experts, expert_tensor = config.expert_model_parallel_size, config.expert_tensor_parallel_size
    stage_size = config.train_gpus // config.pipeline_model_parallel_size
    inside = rank % stage_size
    return TrainRank(
        rank=rank,
        tensor=rank % tensor,
        context=rank // tensor % context,
        data=inside // (tensor * context),
        pipeline=rank // stage_size,
        expert=inside // expert_tensor % experts,
    )


def virtual_stages(config: Config, layers: int) -> int:
    """Parts of a model of so many layers on each rank of its pipeline; 1 without interleaving, at least 1 with it."""
    if config.num_virtual_stages_per_pipeline_rank is not None:
        return config.num_virtual_stages_per_pipeline_rank
    if config.num_layers_per_virtual_pipeline_stage is None:
        return 1
    ends = (config.decoder_first_pipeline_num_layers, config.decoder_last_pipeline_num_layers)
    given = [one for one in ends if one is not None]
    stages = max(config.pipeline_model_parallel_size - len(given), 1)
    return max((layers - sum(given)) // stages // config.num_layers_per_virtual_pipeline_stage, 1)


def node_width(config: Config) -> int | None:
    """GPUs of one node as placement counts them; None on a CPU, where all processes share one machine."""
    return None if config.device == "cpu" else config.num_gpus_per_node


def devices(config: Config) -> tuple[Device, ...]:
    """Every device in rank order.

    Colocated, engines share the devices of the trainer from device 0 on; otherwise they follow after them.

    Raises:
        ConfigError: ``--sglang-config`` or ``--prefill-num-servers`` does not add up.
    """
    offset = 0 if config.colocate else config.train_gpus
    serving = {offset + slot: place for slot, place in enumerate(_serving_slots(serving_groups(config)))}
    total = max(config.train_gpus, offset + len(serving))
    width = node_width(config) or total
    found = []
    for number in range(total):
        engine, engine_rank, kind = serving.get(number, (None, None, None))
        train = train_rank(config, number) if number < config.train_gpus else None
        found.append(Device(number, number // width, number % width, train, engine, engine_rank, kind))
    return tuple(found)


def _serving_slots(groups: tuple[ServingGroup, ...]) -> Iterator[tuple[int | None, int | None, str | None]]:
    """Engine number, rank inside it and kind of every serving GPU; a placeholder has none."""
    engine = 0
    for group in groups:
        if group.kind == "placeholder":
            yield from [(None, None, None)] * group.gpus
            continue
        for _ in range(group.engines):
            for rank in range(group.gpus_per_engine):
                yield engine, rank, group.kind
            engine += 1


def processes(config: Config) -> tuple[Processes, ...]:
    """Kinds of processes, how many of each, GPUs of each. On a CPU a GPU stands for a process slot.

    An engine that spans nodes counts once; a critic shares the GPUs of the trainer.
    """
    found = [Processes("driver", 1, 0), Processes("trainer", config.train_gpus, 1)]
    if config.advantage_estimator == "ppo":
        found.append(Processes("critic", config.train_gpus, 1))
    for group in serving_groups(config):
        if group.engines:
            name = "engine" if group.kind == "regular" else f"{group.kind} engine"
            found.append(Processes(name, group.engines, group.gpus_per_engine))
    if config.rollout_external_engine_addrs:
        found.append(Processes("external engine", len(config.rollout_external_engine_addrs), 0))
    return tuple(found)
