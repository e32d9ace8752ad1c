"""Host memory: what a round's samples take, what offloaded weights take, shared memory, limits of processes."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.machine import SHARED_MEMORY, UNLIMITED
from slime.config.preflight.shards import checkpoint_bytes, checkpoint_elements
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import size_text

# Per token of a sample: a token id and a log-probability of 4 bytes, a mask of 1.
_BYTES_A_TOKEN = 9
# A round of more samples' tokens than this is kept in host memory more than once on its way to the trainer.
_LARGE_ROUND = 16 * 1024**3
_FULL = 0.8
_FILES_BESIDE_REQUESTS = 1024


def round_bytes(config: Config, inputs: Inputs | None = None) -> int:
    """What the samples of one round take in host memory, in bytes; 0 when their length has no limit."""
    if config.rollout_max_context_len is None:
        return 0
    each = _BYTES_A_TOKEN
    model = inputs.model if inputs is not None else None
    if config.use_rollout_routing_replay and model is not None and model.layers and model.chosen:
        each += model.layers * model.chosen * (1 if (model.experts or 0) <= 256 else 2)
    return config.samples_per_rollout * config.rollout_max_context_len * each


def check_round_size(config: Config) -> Iterator[Finding]:
    """A round is of a size that passes through host memory."""
    total = round_bytes(config)
    if total > _LARGE_ROUND:
        yield Finding(
            f"{config.samples_per_rollout} samples of up to {config.rollout_max_context_len} tokens take up to "
            f"{size_text(total)} of host memory at the change from generation to training",
            "give a smaller --rollout-batch-size or --n-samples-per-prompt",
            ("--rollout-batch-size", "--n-samples-per-prompt"),
        )


def check_round_memory(inputs: Inputs) -> Iterator[Finding]:
    """A round's samples fit this machine: in the loop, in the object store, and in the batch that is made of them."""
    total, memory = 3 * round_bytes(inputs.config, inputs), inputs.machine.memory
    if memory is not None and total > _FULL * memory:
        yield Finding(
            f"the samples of one round take up to {size_text(total)} of host memory (three times "
            f"{size_text(total / 3)}: in the loop, in the object store, in the batch), and {inputs.machine.name} has "
            f"{size_text(memory)}",
            "give a smaller --rollout-batch-size, or a larger memory limit",
            ("--rollout-batch-size", "--n-samples-per-prompt"),
        )


def check_weights_memory(inputs: Inputs) -> Iterator[Finding]:
    """Weights, optimizer and buffers that wait in host memory fit this machine."""
    config, memory = inputs.config, inputs.machine.memory
    numbers = checkpoint_elements(inputs.shards)
    nodes = max(config.actor_num_nodes, 1)
    # An offload takes what the training GPUs hold, so a node holds its share of the model's copies.
    share = config.actor_num_gpus_per_node / max(config.model_parallel_size, 1)
    copies = max(share, 1 / nodes)
    offloads = config.offload or config.offload_train is True or (config.colocate and config.device == "cuda")
    parts = {
        "weights of the trainer": numbers * (14 if config.device == "cpu" else 2 * offloads) * copies,
        "optimizer": 12 * numbers / nodes
        if config.optimizer_cpu_offload or (offloads and config.device != "cpu")
        else 0,
        "what --async-save writes": 12 * numbers / nodes if config.async_save else 0,
        "the engines' weights": checkpoint_bytes(inputs.folder) * config.num_engines if config.device == "cpu" else 0,
        "buffers of weights": 2 * min(config.update_weight_buffer_size, 4 * numbers),
        "samples": 3 * round_bytes(config, inputs),
    }
    total = sum(parts.values())
    if memory is None or total <= _FULL * memory:
        return
    ledger = ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size)
    yield Finding(
        f"about {size_text(total)} of host memory would be used on each node ({ledger}), and {inputs.machine.name} has "
        f"{size_text(memory)}: above {_FULL:.0%} of it Ray ends the largest process",
        "use more nodes, give a larger memory limit, or keep the optimizer on the GPU",
        ("--optimizer-cpu-offload", "--offload-train"),
    )


def check_shared_memory(inputs: Inputs) -> Iterator[Finding]:
    """One bucket of weights fits in shared memory, through which a colocated engine on a CPU reads it."""
    config, free = inputs.config, inputs.machine.shared_memory
    if config.device != "cpu" or config.update_weight_transport == "disk" or not config.colocate:
        return
    if free is None:
        yield Finding(f"{SHARED_MEMORY} does not exist: weights travel through it", "mount a tmpfs there")
        return
    need = min(config.update_weight_buffer_size, 2 * checkpoint_bytes(inputs.folder))
    if free < need:
        yield Finding(
            f"{SHARED_MEMORY} has {size_text(free)} free, one bucket of weights takes {size_text(need)}",
            f"give --update-weight-buffer-size {max(free // 2, 1024)}, or a larger tmpfs (docker run --shm-size)",
            ("--update-weight-buffer-size",),
        )


def check_open_files(inputs: Inputs) -> Iterator[Finding]:
    """Every request in flight may have its connection."""
    limit, config = inputs.machine.open_files, inputs.config
    need = config.sglang_server_concurrency * max(config.num_engines, 1) + _FILES_BESIDE_REQUESTS
    if limit != UNLIMITED and limit < need:
        engines = f" x {config.num_engines} engines" if config.num_engines > 1 else ""
        yield Finding(
            f"a process may open {limit} files (ulimit -Hn), and --sglang-server-concurrency "
            f"{config.sglang_server_concurrency}{engines} keeps that many connections open, with "
            f"{_FILES_BESIDE_REQUESTS} files beside them",
            f"raise it (ulimit -n {need}, docker run --ulimit nofile={need}), or give a smaller "
            "--sglang-server-concurrency",
            ("--sglang-server-concurrency",),
        )


RULES = (
    Rule(
        id="round-memory",
        row=36,
        source="slime#537",
        severity="warning",
        title=Text("一轮的样本放得进主机内存", "The samples of a round fit host memory"),
        why=Text(
            "从采样切换到训练时，整轮样本会同时存在三份，大批次在这里耗尽内存。",
            "At the change from generation to training the whole round exists three times; large rounds run out of "
            "memory there.",
        ),
        cfg=check_round_size,
        host=check_round_memory,
    ),
    Rule(
        id="host-memory",
        row=70,
        source="slime#1845, slime#638, slime#651, slime#1136",
        severity="warning",
        title=Text("权重、优化器和缓冲放得进主机内存", "Weights, optimizer and buffers fit host memory"),
        why=Text(
            "卸载的权重和优化器、对象存储与保存缓冲加在一起；超过限额时 Ray 会终止进程，往往正在保存 checkpoint。",
            "Offloaded weights and optimizer, object store and save buffer add up; above the limit Ray ends a "
            "process, often "
            "in the middle of a save.",
        ),
        host=check_weights_memory,
    ),
    Rule(
        id="shared-memory",
        title=Text("一批权重放得进 /dev/shm", "One bucket of weights fits /dev/shm"),
        why=Text(
            "CPU 上的权重经共享内存同步；容器默认只有 64 MiB。",
            "On a CPU weights travel through shared memory, of which a container has 64 MiB by default.",
        ),
        host=check_shared_memory,
    ),
    Rule(
        id="open-files",
        title=Text("进程能打开足够多的连接", "A process may open enough connections"),
        why=Text(
            "每个在途请求占一个连接；达到上限后，请求会成批失败。",
            "Each request in flight has a connection; at the limit requests fail by the hundred.",
        ),
        host=check_open_files,
    ),
)
