"""Checkpoints: which are read, which are written, how often."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import flag, planned


@dataclass(frozen=True)
class CheckpointFlags:
    """Folders of the model in Hugging Face and in Megatron layout."""

    hf_checkpoint: str = flag(
        None,
        "Hugging Face 目录：引擎的权重、tokenizer 和 config.json",
        "Hugging Face folder: the engine's weights, the tokenizer and config.json",
        required=True,
    )
    model_name: str | None = planned(
        None, "权重转换所用的模型家族名", "model family that selects the weight conversion"
    )
    ref_load: str | None = flag(
        None,
        "起始权重，也是参考策略：Megatron 分布式 checkpoint 目录，或 Hugging Face 目录",
        "the initial weights, and the reference policy: a Megatron distributed or a Hugging Face checkpoint",
    )
    ref_ckpt_step: int | None = flag(None, "参考 checkpoint 的步", "step of the reference checkpoint", minimum=0)
    load: str | None = flag(
        None,
        "恢复训练的 checkpoint 目录；没有 tracker 文件时改用 --ref-load",
        "checkpoint folder to resume from; without a tracker file --ref-load is used",
    )
    ckpt_step: int | None = flag(None, "恢复到指定的步", "resume from this step", minimum=0, source="megatron")
    save: str | None = flag(None, "保存 checkpoint 的目录", "folder that receives the checkpoints")
    save_interval: int | None = flag(
        None, "每隔多少轮保存一次；最后一轮总会保存", "rounds between two saves; the last round always saves", minimum=1
    )
    save_hf: str | None = flag(
        None,
        "每次保存时也写一份 Hugging Face 权重，格式同 --hf-checkpoint；路径可含 {rollout_id}",
        "with each save also write Hugging Face weights, in the format of --hf-checkpoint; the path may contain "
        "{rollout_id}",
    )
    async_save: bool = flag(
        False,
        "在后台写 checkpoint，训练不停",
        "write checkpoints in the background while training goes on",
        source="megatron",
    )
    keep_last: int | None = flag(
        None,
        "--save 里只留最近这么多个 checkpoint，默认全部保留",
        "how many of the latest checkpoints stay in --save; by default all",
        minimum=1,
        source="own",
    )
    no_save_optim: bool = flag(
        False,
        "不保存优化器状态和学习率进度",
        "save neither the optimizer's state nor the schedule's",
        source="megatron",
    )
    no_load_optim: bool = flag(
        False,
        "不恢复优化器状态和学习率进度",
        "begin with a new optimizer and at the first step of the schedule",
        source="megatron",
    )
    no_load_rng: bool = flag(False, "不恢复随机数状态", "do not load the random state", source="megatron")
    finetune: bool = flag(
        False,
        "只取 --load 的权重，从第 0 轮开始",
        "take the weights of --load alone and start at round 0",
        source="megatron",
    )
    start_rollout_id: int | None = flag(
        None,
        "从第几轮开始，默认接着恢复的那一轮",
        "round to start at, by default the one after the round that is resumed",
        minimum=0,
    )
