"""Which placement, schedule, transport and device go together."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.import_paths import FULLY_ASYNC
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import counted

_Exclusion = tuple[bool, str, str, str, str]
"""(both are set, one, the other, why, the two nearest legal modes)."""


def check_modes(config: Config) -> Iterator[Finding]:
    """Placement, schedule and debugging modes that exclude each other."""
    for exclusions in (_of_engines, _of_schedule, _of_objective, _of_debugging):
        for bad, first, second, why, ways in exclusions(config):
            if bad:
                yield Finding(
                    f"{first} and {second} exclude each other: {why}", ways, (first.split()[0], second.split()[0])
                )


def _of_engines(config: Config) -> tuple[_Exclusion, ...]:
    """Where engines come from and how weights reach them."""
    external = bool(config.rollout_external_engine_addrs)
    delta = config.update_weight_mode == "delta"
    return (
        (external and config.colocate, "--rollout-external-engine-addrs", "--colocate",
         "engines that run elsewhere do not share the training GPUs",
         "drop --colocate, or drop the addresses so that engines are started on the training GPUs"),
        (external and config.sglang_config is not None, "--rollout-external-engine-addrs", "--sglang-config",
         "external engines are configured by their owner", "drop the file, or drop the addresses"),
        (external and config.rollout_num_gpus > 0, "--rollout-external-engine-addrs",
         f"--rollout-num-gpus {config.rollout_num_gpus}", "no engine of this run is started beside external ones",
         "drop --rollout-num-gpus, or drop the addresses"),
        (external and config.use_fault_tolerance, "--rollout-external-engine-addrs", "--use-fault-tolerance",
         "external engines are never restarted here", "drop one of them"),
        (config.prefill_num_servers is not None and config.sglang_config is not None, "--prefill-num-servers",
         "--sglang-config", "both describe the groups of servers",
         "write the prefill group into the file, or drop the file"),
        (delta and config.colocate, "--update-weight-mode delta", "--colocate",
         "colocated engines read the whole weights from the trainer's memory",
         "give --update-weight-mode full, or drop --colocate"),
    )  # fmt: skip


def _of_schedule(config: Config) -> tuple[_Exclusion, ...]:
    """Rounds from a queue, and rounds that are generated on their own."""
    if config.fully_async:
        return _of_fully_async(config)
    return (
        (config.max_weight_staleness is not None, "--max-weight-staleness",
         f"--rollout-function-path {config.rollout_function_path}",
         "it bounds the age of a queue's samples, and a round that is generated on its own has none",
         f"drop it, or give --rollout-function-path {FULLY_ASYNC}"),
    )  # fmt: skip


def _of_fully_async(config: Config) -> tuple[_Exclusion, ...]:
    """What a queue that is filled while training goes on rules out."""
    path = "--rollout-function-path (fully async)"
    offloads = config.offload or config.offload_train is True
    return (
        (config.colocate, path, "--colocate",
         "asynchronous generation never gives the GPUs to the trainer",
         "drop --colocate and give --rollout-num-gpus, or generate round by round without --rollout-function-path"),
        (config.deterministic_mode, path, "--deterministic-mode",
         "a continuous queue cannot reproduce the order of samples",
         "drop --deterministic-mode, or generate round by round without --rollout-function-path"),
        (config.release_train, path, "--release-train",
         "the trainer runs while the queue is filled, so it cannot be taken down",
         "drop --release-train, or generate round by round without --rollout-function-path"),
        (offloads, path, "--offload-train",
         "the trainer never waits for generation, so there is no time to move it out of its memory",
         "drop the offload, or generate round by round without --rollout-function-path"),
        (config.over_sampling_batch_size is not None, path, "--over-sampling-batch-size",
         "the queue asks for groups one by one, as engines become free",
         "drop it and bound how far generation runs ahead with --max-weight-staleness, or generate round by round "
         "without --rollout-function-path"),
        (config.rollout_all_samples_process_path is not None, path,
         "--rollout-all-samples-process-path", "samples of a round and of the next are generated at the same time",
         "drop it and use --rollout-sample-filter-path, or generate round by round without --rollout-function-path"),
    )  # fmt: skip


def _of_objective(config: Config) -> tuple[_Exclusion, ...]:
    """Parts of the objective that need a whole model on each rank."""
    return (
        (config.advantage_estimator == "ppo" and config.model_parallel_size > 1, "--advantage-estimator ppo",
         "--tensor-model-parallel-size, --pipeline-model-parallel-size or --context-parallel-size above 1",
         "the critic's head is made for a model that is whole on each rank",
         "make these sizes 1, or take an estimator without a critic, such as grpo"),
        (config.use_score_centering and config.tensor_model_parallel_size > 1, "--use-score-centering",
         "--tensor-model-parallel-size above 1",
         "it scores the sampler's likeliest tokens, which lie in different ranks' parts of the vocabulary",
         "make this size 1, or drop --use-score-centering"),
        (config.loss_type == "custom_loss" and config.model_parallel_size > 1, "--loss-type custom_loss",
         "--tensor-model-parallel-size, --pipeline-model-parallel-size or --context-parallel-size above 1",
         "the function is given whole logits, and no rank has them",
         "make these sizes 1, or use --loss-type policy_loss"),
    )  # fmt: skip


def _of_debugging(config: Config) -> tuple[_Exclusion, ...]:
    """Modes that leave a part of the run out."""
    alone = config.debug_rollout_only or config.debug_train_only
    return (
        (config.debug_rollout_only and config.debug_train_only, "--debug-rollout-only", "--debug-train-only",
         "together they leave nothing to run", "keep one of them"),
        (config.debug_rollout_only and config.load_debug_rollout_data is not None, "--debug-rollout-only",
         "--load-debug-rollout-data", "loaded samples are there to train on",
         "drop the file to generate, or drop --debug-rollout-only to train"),
        (alone and config.advantage_estimator == "ppo" and config.num_critic_only_steps > 0,
         "--num-critic-only-steps", "--debug-rollout-only" if config.debug_rollout_only else "--debug-train-only",
         "the critic learns from rounds that are generated and trained", "drop one of them"),
    )  # fmt: skip


def check_weight_transport(config: Config) -> Iterator[Finding]:
    """What the chosen weight transport needs."""
    if config.update_weight_transport == "disk" and not config.update_weight_disk_dir:
        yield Finding(
            "--update-weight-transport disk needs --update-weight-disk-dir: trainer and engines meet in that folder",
            "name a folder that trainer and engines both see",
            ("--update-weight-disk-dir",),
        )
    if config.update_weight_mode == "delta":
        if config.update_weight_transport != "disk":
            yield Finding(
                "--update-weight-mode delta travels over disk alone: an engine applies it to its own local checkpoint",
                "give --update-weight-transport disk",
                ("--update-weight-mode", "--update-weight-transport"),
            )
        if not config.update_weight_local_checkpoint_dir:
            yield Finding(
                "--update-weight-mode delta needs --update-weight-local-checkpoint-dir: the difference is applied "
                "there",
                "name a local folder that every engine host has",
                ("--update-weight-local-checkpoint-dir",),
            )


def check_device(config: Config) -> Iterator[Finding]:
    """What a CPU cannot do. What a GPU does not run yet is said by the flags themselves, as planned."""
    if config.device != "cpu":
        return
    if config.attention_backend in ("flash", "fused"):
        yield Finding(
            f"--attention-backend {config.attention_backend} is a GPU kernel and --device is cpu",
            "give --attention-backend auto",
            ("--attention-backend", "--device"),
        )
    for flag, value, today in (
        ("--sglang-attention-backend", config.sglang_attention_backend, "torch_native"),
        ("--sglang-cuda-graph-backend-decode", config.sglang_cuda_graph_backend_decode, "disabled"),
        ("--sglang-cuda-graph-backend-prefill", config.sglang_cuda_graph_backend_prefill, "disabled"),
    ):
        if value not in (None, today):
            yield Finding(f"{flag} {value} needs a GPU and --device is cpu", f"give {flag} {today}", (flag, "--device"))


def check_gpu_run(config: Config) -> Iterator[Finding]:
    """`--device cuda` runs one experiment today: the tiny one with trainer and engine together on one GPU."""
    if config.device != "cuda":
        return
    gpus = max(config.train_gpus, config.rollout_num_gpus)
    for bad, flag, found, today in (
        (config.recipe != "tiny", "--recipe", config.recipe, "--recipe tiny"),
        (not config.colocate, "--colocate", None, "--colocate: the engine reads weights from the trainer's GPU"),
        (gpus != 1, "--actor-num-gpus-per-node", counted(gpus, "GPU"),
         "--actor-num-gpus-per-node 1 --rollout-num-gpus 1"),
        (config.sglang_attention_backend != "triton", "--sglang-attention-backend", config.sglang_attention_backend,
         "--sglang-attention-backend triton"),
        (config.optimizer_cpu_offload, "--optimizer-cpu-offload", "on",
         "no --optimizer-cpu-offload: only a CPU has run it"),
        (config.fp8_format is not None, "--fp8-format", config.fp8_format, "no --fp8-format: only a CPU has run it"),
    ):  # fmt: skip
        if bad:
            given = "is not given" if found is None else f"is {found}"
            yield Finding(
                f"--device cuda runs the tiny experiment on one GPU alone today, and {flag} {given}",
                f"give {today}",
                (flag,),
            )


RULES = (
    Rule(
        id="modes",
        row=14,
        source="slime#477, slime#2170",
        title=Text("模式之间没有矛盾", "The modes do not contradict each other"),
        why=Text(
            "同卡、异步、外部引擎、差异同步和调试模式并非任意组合；矛盾的组合以前要到各个模块导入之后才会断言失败。",
            "Colocation, asynchrony, external engines, delta weights and debugging do not combine freely; a wrong pair "
            "used to fail an assertion, once everything had been imported.",
        ),
        cfg=check_modes,
    ),
    Rule(
        id="weight-transport",
        title=Text("权重传输方式所需的目录都已给出", "The weight transport has the folders that it needs"),
        why=Text(
            "经磁盘同步的权重需要两端都能看到的目录，差异同步还需要引擎主机上的本地 checkpoint。",
            "Weights over disk need a folder that both sides see; a delta also needs a local checkpoint on the "
            "engines.",
        ),
        cfg=check_weight_transport,
    ),
    Rule(
        id="device",
        title=Text("CPU 上不要求 GPU 的 kernel", "A CPU is asked for no GPU kernels"),
        why=Text(
            "GPU 的注意力实现和 CUDA graph 在 CPU 上不存在，引擎要到加载完权重才会失败。",
            "GPU attention and CUDA graphs do not exist on a CPU; the engine would fail after loading its weights.",
        ),
        cfg=check_device,
    ),
    Rule(
        id="gpu-run",
        title=Text("GPU 上的运行是已经验证过的那一种", "A run on GPUs is of the kind that has been shown to run"),
        why=Text(
            "目前在 GPU 上只运行过小模型：训练端与引擎同卡，共用一张 GPU。",
            "On GPUs only the tiny model has run so far, with trainer and engine together on one GPU.",
        ),
        cfg=check_gpu_run,
    ),
)
