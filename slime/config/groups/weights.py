"""Weight synchronisation from the trainer to the engines."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import NEWER_SLIME, flag, planned


@dataclass(frozen=True)
class WeightFlags:
    """Which weights travel, and over what."""

    update_weight_mode: str = flag(
        "full",
        "同步全部权重还是差异",
        "send all weights or their difference",
        choices=("full", "delta"),
        only=("full",),
    )
    update_weight_transport: str = flag(
        "nccl",
        "权重的传输方式；nccl 在 CPU 上改用共享内存，同卡时改用 CUDA IPC",
        "how weights travel; nccl means shared memory on a CPU, and CUDA IPC when colocated on GPUs",
        choices=("nccl", "disk"),
    )
    update_weight_disk_dir: str | None = flag(
        None, "经磁盘同步时两端都能看到的目录", "folder that both sides see, for the transport disk"
    )
    update_weight_disk_keep_files: bool = flag(False, "保留经磁盘同步的文件", "keep the files of the transport disk")
    update_weight_local_checkpoint_dir: str | None = planned(
        None, "引擎主机上的本地 checkpoint 目录", "local checkpoint folder on the engines' hosts"
    )
    update_weight_delta_encoding: str = planned(
        "xor", "差异的编码", "encoding of the difference", choices=("xor", "overwrite")
    )
    update_weight_delta_checksum: str = planned(
        "xxh3-128", "差异的校验和", "checksum of the difference", choices=("xxh3-128", "blake3", "adler32")
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
        False, "每次同步后核对引擎的权重", "compare the engine's weights after every update"
    )
