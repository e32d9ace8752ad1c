"""Metrics, dumps, debugging."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import flag, planned


@dataclass(frozen=True)
class ObservabilityFlags:
    """Where metrics go, and what is written for later inspection."""

    metrics_file: str | None = flag(None, "指标写入的 JSONL 文件", "JSONL file that receives the metrics", source="own")
    tensorboard_dir: str | None = flag(
        None, "TensorBoard 目录", "folder that receives TensorBoard events", source="megatron"
    )
    use_tensorboard: bool = planned(False, "写 TensorBoard", "write TensorBoard events")
    tb_project_name: str | None = planned(None, "TensorBoard 项目名", "project name in TensorBoard")
    tb_experiment_name: str | None = planned(None, "TensorBoard 实验名", "experiment name in TensorBoard")
    use_wandb: bool = planned(False, "写 W&B", "write to W&B")
    wandb_mode: str | None = planned(None, "W&B 模式", "mode of W&B", choices=("online", "offline", "disabled"))
    wandb_project: str | None = planned(None, "W&B 项目", "project in W&B")
    wandb_group: str | None = planned(None, "W&B 组", "group in W&B")
    wandb_team: str | None = planned(None, "W&B 团队", "team in W&B")
    wandb_host: str | None = planned(None, "W&B 地址", "address of W&B")
    wandb_dir: str | None = planned(None, "W&B 目录", "folder of W&B")
    log_multi_turn: bool = planned(False, "记录多轮指标", "record multi-turn metrics")
    log_passrate: bool = planned(False, "记录 pass@k", "record pass@k")
    log_reward_category: str | None = planned(None, "按类别记录奖励", "record rewards by this category")
    log_correct_samples: bool = planned(False, "记录正确样本的统计", "record statistics of correct samples")
    save_debug_rollout_data: str | None = planned(
        None, "样本转储路径，可含 {rollout_id}", "path of sample dumps; may contain {rollout_id}"
    )
    load_debug_rollout_data: str | None = planned(None, "只用转储的样本训练", "train from dumped samples alone")
    save_debug_train_data: str | None = planned(None, "训练数据转储路径", "path of training-data dumps")
    dump_details: str | None = planned(None, "全部转储的目录", "folder that receives all dumps")
    debug_rollout_only: bool = planned(False, "只采样", "generate only")
    debug_train_only: bool = planned(False, "只训练", "train only")
