"""Where the processes run: device, nodes, GPUs, and what shares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slime.config.flags import NEWER_SLIME, flag, planned


@dataclass(frozen=True)
class ClusterFlags:
    """Device, node counts and the placement of training and serving. Counts are GPUs, or CPU processes on a CPU."""

    device: str = flag(
        "cpu",
        "运行设备：cpu 用 gloo 和 SGLang 的 CPU 引擎，cuda 用 NCCL 和 GPU",
        "device: cpu means gloo and SGLang's CPU engine, cuda means NCCL and GPUs",
        choices=("cpu", "cuda"),
        source="own",
    )
    recipe: str | None = flag(
        None,
        "recipes/launch 中的配方 id；用来核对 checkpoint 的维度",
        "id of the recipe in recipes/launch; the checkpoint's dimensions are compared with it",
        only=("tiny",),
        source="own",
    )
    actor_num_nodes: int = flag(1, "训练节点数", "number of training nodes", minimum=1, maximum=512, only=(1,))
    actor_num_gpus_per_node: int = flag(
        None,
        "每个训练节点的 GPU 数，默认 8；CPU 上为进程数，默认 1",
        "training GPUs of one node, by default 8; on a CPU processes, by default 1",
        minimum=1,
        maximum=64,
    )
    rollout_num_gpus: int = flag(
        None,
        "采样端 GPU 总数；同卡时默认等于训练 GPU 数，0 表示不启动本地引擎",
        "serving GPUs in all; colocated it defaults to the training GPUs, 0 starts no local engine",
        minimum=0,
        maximum=8192,
    )
    rollout_num_gpus_per_engine: int = flag(
        1,
        "每个推理引擎占用的 GPU 数（TP x PP）",
        "GPUs of one serving engine (TP x PP)",
        minimum=1,
        maximum=1024,
        only=(1,),
    )
    num_gpus_per_node: int = planned(
        8, "放置引擎时每个节点的 GPU 数", "GPUs of one node when engines are placed", minimum=1, maximum=64
    )
    colocate: bool = flag(False, "训练和采样共用 GPU，轮流使用", "training and serving share the GPUs and take turns")
    offload: bool = planned(False, "训练端和采样端都卸载显存", "offload both the trainer and the engines")
    offload_train: bool | None = planned(
        None, "采样时把训练端卸载到主机内存", "move the trainer to host memory while the engines generate"
    )
    offload_rollout: bool | None = planned(
        None, "训练时释放引擎的显存", "release the engines' memory while the trainer trains"
    )
    release_train: bool = planned(
        False, "每轮销毁并重建训练进程", "destroy and re-create the training processes each round"
    )
    rollout_external_engine_addrs: tuple[str, ...] | None = flag(
        None,
        "已经在运行的引擎地址 host:port，可写多个；启动时核对它们的模型，不启动、不重启、不卸载它们",
        "addresses host:port of engines that already run, one or more; their model is checked at the start, and they "
        "are never started, restarted or offloaded",
    )
    distributed_timeout_minutes: int = flag(
        10, "进程组超时（分钟）", "time limit of the process groups, in minutes", minimum=1, source="megatron"
    )
    train_backend: str = flag("megatron", "训练后端", "training backend", choices=("megatron",))
    train_env_vars: Mapping[str, Any] | None = planned(
        None, "训练进程的额外环境变量（JSON）", "extra environment variables of the training processes (JSON)"
    )
    use_fault_tolerance: bool = flag(
        False,
        "引擎进程退出时运行继续：它的请求改由同一模型的其他引擎完成，下一次权重同步前重新启动它；没有其他引擎时仍以原因结束",
        "go on when an engine's process ends: other engines of its model take its requests, and it is started again "
        "before the next weight update; without another engine the run still ends with the reason",
    )
    rollout_health_check_interval: float = planned(
        600.0, "引擎健康检查的间隔（秒）", "seconds between health checks of the engines", above=0
    )
    rollout_health_check_timeout: float = planned(
        30.0, "一次健康检查的时限（秒）", "time limit of one health check, in seconds", above=0
    )
    rollout_health_check_first_wait: float = planned(
        0.0, "第一次健康检查前的等待（秒）", "seconds to wait before the first health check", minimum=0
    )
    rollout_session_id: str | None = planned(
        None, "保留引擎的会话名", "name of the session whose engines outlive the job", since=NEWER_SLIME
    )
    rollout_cleanup_timeout: float = planned(
        60.0, "清理会话的时限（秒）", "time limit for cleaning up a session, in seconds", above=0, since=NEWER_SLIME
    )
    dry_run: bool = flag(
        False,
        "只打印解析后的配置、进程布局和派生数值，不启动任何进程",
        "print the resolved configuration, the layout and the derived numbers, and start nothing",
        source="own",
    )
    dry_run_json: str | None = flag(
        None, "把 --dry-run 的结果写成 JSON 文件", "file that receives the result of --dry-run as JSON", source="own"
    )
