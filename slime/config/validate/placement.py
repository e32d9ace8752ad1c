"""GPUs, parallel sizes, engines, and which modes go together."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.validate.arithmetic import nearest_multiples

FULLY_ASYNC = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"


def validate_world(config: Config) -> Iterator[Problem]:
    """Training GPUs divide into whole copies of the dense model and into whole copies of the experts."""
    world = config.train_gpus
    dense = config.model_parallel_size
    expert = (
        config.expert_tensor_parallel_size * config.expert_model_parallel_size * config.pipeline_model_parallel_size
    )
    flags = ("--actor-num-nodes", "--actor-num-gpus-per-node")
    for size, product, values in (
        (dense, "TP x PP x CP", _sizes(config, "tensor", "pipeline", "context")),
        (expert, "ETP x EP x PP", _sizes(config, "expert_tensor", "expert", "pipeline")),
    ):
        if world % size:
            yield Problem(
                "cfg",
                f"{world} training GPUs do not divide into copies of {product} = {values} = {size} GPUs",
                f"give {nearest_multiples(world, size)} training GPUs, or smaller parallel sizes",
                flags,
            )


def validate_engines(config: Config) -> Iterator[Problem]:
    """Serving GPUs divide into whole engines, and there is at least one."""
    total, each = config.rollout_num_gpus, config.rollout_num_gpus_per_engine
    flags = ("--rollout-num-gpus", "--rollout-num-gpus-per-engine")
    if total == 0 and not config.rollout_external_engine_addrs:
        yield Problem(
            "cfg", "--rollout-num-gpus 0 starts no engine, so nothing would generate", f"give at least {each}", flags
        )
    elif total % each:
        yield Problem(
            "cfg",
            f"{total} serving GPUs do not divide into engines of {each} GPUs",
            f"give {nearest_multiples(total, each)} serving GPUs",
            flags,
        )
    if config.colocate and config.train_gpus % each:
        yield Problem(
            "cfg",
            f"--colocate: engines of {each} GPUs do not tile the {config.train_gpus} training GPUs that they share",
            f"give {nearest_multiples(config.train_gpus, each)} training GPUs, or a smaller engine",
            ("--colocate", *flags),
        )


def validate_modes(config: Config) -> Iterator[Problem]:
    """Placement and schedule modes that exclude each other."""
    external = bool(config.rollout_external_engine_addrs)
    asynchronous = config.rollout_function_path == FULLY_ASYNC
    delta = config.update_weight_mode == "delta"
    for bad, first, second, why in (
        (external and config.colocate, "--rollout-external-engine-addrs", "--colocate",
         "engines that run elsewhere do not share the training GPUs"),
        (external and config.sglang_config is not None, "--rollout-external-engine-addrs", "--sglang-config",
         "external engines are configured by their owner"),
        (config.prefill_num_servers is not None and config.sglang_config is not None, "--prefill-num-servers",
         "--sglang-config", "both describe the groups of servers"),
        (asynchronous and config.colocate, "--rollout-function-path (fully async)", "--colocate",
         "asynchronous generation never gives the GPUs to the trainer"),
        (asynchronous and config.deterministic_mode, "--rollout-function-path (fully async)", "--deterministic-mode",
         "a continuous queue cannot reproduce the order of samples"),
        (delta and config.colocate, "--update-weight-mode delta", "--colocate",
         "colocated engines read the whole weights from the trainer's memory"),
    ):  # fmt: skip
        if bad:
            yield Problem("cfg", f"{first} and {second} exclude each other: {why}", "drop one of them")


def validate_weight_transport(config: Config) -> Iterator[Problem]:
    """What the chosen weight transport needs."""
    if config.update_weight_transport == "disk" and not config.update_weight_disk_dir:
        yield Problem(
            "cfg",
            "--update-weight-transport disk needs --update-weight-disk-dir",
            "name a folder that trainer and engines both see",
            ("--update-weight-disk-dir",),
        )
    if config.update_weight_mode == "delta":
        if config.update_weight_transport != "disk":
            yield Problem(
                "cfg", "--update-weight-mode delta travels over disk alone", "give --update-weight-transport disk"
            )
        if not config.update_weight_local_checkpoint_dir:
            yield Problem(
                "cfg",
                "--update-weight-mode delta needs --update-weight-local-checkpoint-dir",
                "name a local folder that every engine host has",
            )


def validate_device(config: Config) -> Iterator[Problem]:
    """What a CPU cannot do, and what was not run on GPUs yet."""
    if config.device == "cpu" and config.attention_backend in ("flash", "fused"):
        yield Problem(
            "cfg",
            f"--attention-backend {config.attention_backend} is a GPU kernel and --device is cpu",
            "give auto, unfused or local",
            ("--attention-backend", "--device"),
        )
    if config.device == "cuda":
        yield from _not_yet_on_gpus(config)
        return
    for flag, value, today in (
        ("--sglang-attention-backend", config.sglang_attention_backend, "torch_native"),
        ("--sglang-cuda-graph-backend-decode", config.sglang_cuda_graph_backend_decode, "disabled"),
        ("--sglang-cuda-graph-backend-prefill", config.sglang_cuda_graph_backend_prefill, "disabled"),
    ):
        if value not in (None, today):
            yield Problem("cfg", f"{flag} {value} needs a GPU and --device is cpu", f"give {today}", (flag, "--device"))


def _not_yet_on_gpus(config: Config) -> Iterator[Problem]:
    """`--device cuda` runs one experiment today, the tiny one with trainer and engine together on one GPU."""
    gpus = max(config.train_gpus, config.rollout_num_gpus)
    for bad, flags, found, today in (
        (config.recipe != "tiny", "--recipe", config.recipe or "not given", "--recipe tiny"),
        (not config.colocate, "--colocate", "not given", "--colocate: the engine reads weights from the trainer's GPU"),
        (gpus != 1, "--actor-num-gpus-per-node", f"{gpus} GPUs", "--actor-num-gpus-per-node 1 --rollout-num-gpus 1"),
        (config.attention_backend in ("flash", "fused"), "--attention-backend", config.attention_backend,
         "auto, unfused or local: the trainer's attention is PyTorch's"),
        (config.sglang_attention_backend != "triton", "--sglang-attention-backend",
         config.sglang_attention_backend or "not given", "--sglang-attention-backend triton"),
    ):  # fmt: skip
        if bad:
            yield Problem("cfg", f"--device cuda does not run yet with {flags}: {found}", f"give {today}", (flags,))


def _sizes(config: Config, *names: str) -> str:
    endings = {"context": "_parallel_size", "expert_tensor": "_parallel_size"}
    return " x ".join(str(getattr(config, name + endings.get(name, "_model_parallel_size"))) for name in names)
