"""Weight synchronisation from the trainer to the engines."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import NEWER_SLIME, flag, planned


@dataclass(frozen=True)
class WeightFlags:
    """Which weights travel, and over what."""

    update_weight_mode: str = flag(
        "full",
        "同步全部权重，还是只同步与上一版的差异；后者经磁盘传输，各引擎主机据此更新本地副本，"
        "版本不连续或校验不符时自动改发全量",
        "send all weights, or what changed since the version before; the latter travels over disk, and each engine "
        "host applies it to a copy of its own; a host that missed a version or whose checksums differ is sent "
        "everything again",
        choices=("full", "delta"),
    )
    update_weight_transport: str = flag(
        "nccl",
        "权重的传输方式；nccl 在同卡时改用 CUDA IPC（CPU 上为共享内存），不同卡时是一个进程组（CPU 上为 gloo）",
        "how weights travel; nccl means CUDA IPC when colocated (shared memory on a CPU), and otherwise a process "
        "group (gloo on a CPU)",
        choices=("nccl", "disk"),
    )
    update_weight_disk_dir: str | None = flag(
        None, "经磁盘同步时两端都能看到的目录", "folder that both sides see, for the transport disk"
    )
    update_weight_disk_keep_files: bool = flag(False, "保留经磁盘同步的文件", "keep the files of the transport disk")
    update_weight_local_checkpoint_dir: str | None = flag(
        None,
        "引擎主机上的本地 checkpoint 目录；差异同步必需，全量经磁盘同步时引擎也从这里加载",
        "local checkpoint folder on the engines' hosts; delta needs it, and full weights over disk are then loaded "
        "from it too",
    )
    update_weight_delta_encoding: str = flag(
        "xor",
        "差异的编码：xor 为新旧字节异或，overwrite 为改变的位置与新字节；都以 zstd 压缩",
        "encoding of the difference: xor of new and old bytes, or overwrite with positions and new bytes; both are "
        "compressed with zstd",
        choices=("xor", "overwrite"),
    )
    update_weight_delta_checksum: str = flag(
        "xxh3-128",
        "每个改变的张量更新后的校验和",
        "checksum of every changed tensor as it is after the update",
        choices=("xxh3-128", "blake3", "adler32"),
    )
    update_weight_buffer_size: int = flag(
        512 * 1024 * 1024, "一批权重的字节数", "bytes of one batch of weights", minimum=1024
    )
    custom_update_weight_post_write_path: str | None = planned(
        None, "写完权重后调用的函数", "import path of a function that runs after weights are written"
    )
    force_fp8_ue8m0_scale: bool = planned(
        False, "在线 FP8 量化的缩放因子取 2 的幂", "powers of two as scales of online FP8", since=NEWER_SLIME
    )
    update_weights_interval: int = planned(
        1,
        "预取一轮的异步驱动每隔多少轮同步一次权重",
        "rounds between two weight updates of the driver that prefetches one round",
        minimum=1,
    )
    check_weight_update_equal: bool = flag(
        False,
        "每次同步后核对引擎的权重：与训练端的比较（CPU），再写入随机数、重新同步并比较",
        "compare the engine's weights after every update: with the trainer's (on a CPU), and with themselves after "
        "noise and a second update",
    )
