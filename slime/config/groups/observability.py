"""Metrics and where they go."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import flag, planned


@dataclass(frozen=True)
class ObservabilityFlags:
    """Where metrics go, and which of them are made."""

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
    wandb_run_id: str | None = planned(None, "续写的 W&B 运行 id", "id of the W&B run to continue")
    disable_wandb_random_suffix: bool = planned(
        False, "W&B 名字不加随机后缀", "no random suffix in the name of the W&B run"
    )
    wandb_always_use_train_step: bool = planned(
        False, "W&B 的横轴总用更新次数", "always put optimizer steps on the axis of W&B"
    )
    log_multi_turn: bool = flag(False, "记录多轮指标", "record multi-turn metrics")
    log_passrate: bool = flag(False, "记录 pass@k", "record pass@k")
    log_reward_category: str | None = flag(None, "按类别记录奖励", "record rewards by this category")
    log_correct_samples: bool = flag(False, "记录正确样本的统计", "record statistics of correct samples")
    custom_rollout_log_function_path: str | None = flag(
        None,
        "记录一轮指标的函数 f(rollout_id, args, samples, extra_metrics, rollout_time) -> bool",
        "import path of f(rollout_id, args, samples, extra_metrics, rollout_time) -> bool, which logs a round",
    )
    custom_eval_rollout_log_function_path: str | None = flag(
        None,
        "记录评估指标的函数 f(rollout_id, args, data, extra_metrics) -> bool",
        "import path of f(rollout_id, args, data, extra_metrics) -> bool, which logs an evaluation",
    )
