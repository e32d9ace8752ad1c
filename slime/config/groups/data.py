"""Prompts, labels, rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slime.config.flags import MAX_SEED, NEWER_SLIME, flag, planned


@dataclass(frozen=True)
class DataFlags:
    """The prompt file, its columns and how a response becomes a reward."""

    prompt_data: str = flag(
        None,
        "prompt 文件（.jsonl 或 .parquet），可加切片 @[a:b]",
        "prompt file (.jsonl or .parquet), with an optional slice @[a:b]",
        required=True,
    )
    input_key: str = flag("input", "prompt 所在的列", "column of the prompt")
    label_key: str | None = flag(None, "标准答案所在的列", "column of the reference answer")
    metadata_key: str = flag("metadata", "元数据所在的列", "column of the metadata")
    tool_key: str = flag(
        "tools",
        "工具定义所在的列：列表，或列表的 JSON 文本",
        "column of the tool definitions, a list or JSON text of one",
    )
    multimodal_keys: Mapping[str, Any] | None = planned(
        None, "媒体类型到列名的映射（JSON）", "columns of each kind of media (JSON)"
    )
    apply_chat_template: bool = flag(
        False, "用 tokenizer 的对话模板渲染 prompt", "render the prompt with the tokenizer's chat template"
    )
    apply_chat_template_kwargs: Mapping[str, Any] | None = flag(
        None, "传给对话模板的参数（JSON）", "arguments of the chat template (JSON)"
    )
    chat_template_path: str | None = flag(
        None,
        "代替 checkpoint 中对话模板的 Jinja 文件",
        "Jinja file that takes the place of the checkpoint's chat template",
        source="own",
    )
    rollout_shuffle: bool = flag(
        False, "每个 epoch 用种子 + epoch 重排 prompt", "reorder the prompts every epoch, seeded with seed + epoch"
    )
    rollout_seed: int = flag(
        42, "采样和重排的种子", "seed of the sampling and of the order", minimum=0, maximum=MAX_SEED
    )
    disable_rollout_global_dataset: bool = planned(
        False, "不读 prompt 文件，由采样函数自己取数据", "read no prompt file; the rollout function brings its own data"
    )
    data_source_path: str | None = flag(None, "自定义数据源类", "import path of a data source")
    loss_mask_type: str = planned(
        "qwen",
        "SFT 掩码的生成方式",
        "how the mask of supervised data is made",
        choices=("qwen", "qwen3", "qwen3_5", "distill_qwen"),
    )
    rm_type: str | None = flag(
        None,
        "内置评分器",
        "built-in grader",
        choices=(
            *("math", "deepscaler", "dapo", "gsm8k", "f1", "gpqa", "multiple_choice", "ifbench", "remote_rm", "random"),
            # These read the last boxed answer alone.
            *("boxed_math", "boxed_dapo", "boxed_gsm8k", "boxed_f1", "boxed_gpqa", "boxed_multiple_choice"),
        ),
    )
    reward_key: str | None = flag(
        None, "评分器返回字典时取哪个键", "key of the reward when the grader returns a mapping"
    )
    group_rm: bool = flag(False, "一次评一整组回答", "grade all answers of a prompt together")
    rm_url: str | None = flag(None, "远程评分器地址", "address of a remote grader")
    custom_rm_path: str | None = flag(None, "自定义评分函数", "import path of a grading function")
    custom_reward_post_process_path: str | None = flag(
        None, "自定义奖励后处理函数", "import path of a function that post-processes rewards"
    )
    custom_convert_samples_to_train_data_path: str | None = flag(
        None, "自定义样本到训练数据的转换", "import path of a conversion from samples to training data"
    )


@dataclass(frozen=True)
class QueueFlags:
    """How finished samples travel from the engines to the trainer."""

    rollout_data_transport: str = flag(
        "object-store",
        "样本的传递方式",
        "how samples travel",
        choices=("object-store", "nixl", "straw"),
        only=("object-store",),
    )
    rollout_data_dir: str | None = planned(
        None, "straw 的数据目录（绝对路径）", "data folder of straw (absolute path)", since=NEWER_SLIME
    )
    rollout_queue_run_id: str = planned("rollout", "straw 的运行 id", "run id of straw", since=NEWER_SLIME)
    rollout_storage_profile: str = planned(
        "local", "straw 的存储类型", "storage under straw", choices=("local", "juicefs"), since=NEWER_SLIME
    )
    rollout_storage_declaration: str | None = planned(
        None, "共享存储的部署声明（JSON 文件）", "declaration of the shared storage (JSON file)", since=NEWER_SLIME
    )
    rollout_queue_online_gc: bool = planned(
        False, "运行中回收旧数据", "collect old data while running", since=NEWER_SLIME
    )
    rollout_queue_lease_seconds: int = planned(
        300, "任务租约（秒）", "lease of a task, in seconds", minimum=1, since=NEWER_SLIME
    )
    rollout_queue_segment_mib: int | None = planned(
        None, "一个数据段的大小（MiB）", "size of one segment, in MiB", minimum=1, since=NEWER_SLIME
    )
    rollout_io_concurrency: int = planned(4, "读写并发数", "concurrent reads and writes", minimum=1, since=NEWER_SLIME)
