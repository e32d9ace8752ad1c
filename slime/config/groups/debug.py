"""Dumps, replays, profiles and checks for continuous integration."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import NEWER_SLIME, planned


@dataclass(frozen=True)
class DebugFlags:
    """What a person uses to look inside a run, and what a test of a whole run uses to judge it."""

    save_debug_rollout_data: str | None = planned(
        None, "样本转储路径，可含 {rollout_id}", "path of sample dumps; may contain {rollout_id}"
    )
    load_debug_rollout_data: str | None = planned(
        None,
        "只用转储的样本训练，路径可含 {rollout_id}",
        "train from dumped samples alone; the path may contain {rollout_id}",
    )
    load_debug_rollout_data_subsample: float | None = planned(
        None, "只用转储中这一比例的样本", "use this fraction of the dumped samples alone", above=0, maximum=1
    )
    load_forge_rollout_data: str | None = planned(
        None,
        "引擎保持运行，样本取自转储，路径可含 {rollout_id}",
        "keep the engines, take the samples from a dump; the path may contain {rollout_id}",
    )
    save_debug_train_data: str | None = planned(
        None,
        "训练数据转储路径，可含 {rollout_id} 和 {rank}",
        "path of training-data dumps; may contain {rollout_id} and {rank}",
    )
    dump_details: str | None = planned(None, "全部转储的目录", "folder that receives all dumps")
    debug_rollout_only: bool = planned(False, "只采样", "generate only")
    debug_train_only: bool = planned(False, "只训练", "train only")
    profile_target: tuple[str, ...] | None = planned(
        None,
        "用 PyTorch profiler 记录的部分",
        "what PyTorch's profiler records",
        choices=("train_overall", "train_actor", "train_log_probs"),
    )
    record_memory_history: bool = planned(False, "记录显存分配的历史", "record the history of memory allocations")
    memory_snapshot_dir: str = planned(".", "显存快照的目录", "folder of the memory snapshots")
    memory_snapshot_num_steps: int | None = planned(
        None, "快照前记录的更新次数", "optimizer steps to record before a snapshot", minimum=1
    )
    memory_recorder: str = planned("torch", "内存记录工具", "tool that records memory", choices=("torch", "memray"))
    ci_test: bool = planned(False, "用断言检查整个运行", "check the run with assertions")
    ci_disable_kl_checker: bool = planned(
        False, "不检查首步 KL 是否为 0", "do not check that the first step's KL divergence is 0"
    )
    ci_train_rollout_logprob_abs_diff_threshold: float = planned(
        0.1,
        "训推对数概率之差的上限",
        "limit of the difference between the trainer's and the sampler's log-probabilities",
        above=0,
        since=NEWER_SLIME,
    )
    ci_save_grad_norm: str | None = planned(
        None, "写入梯度范数的文件", "file that receives the gradient norms; may contain {rollout_id} and {step_id}"
    )
    ci_load_grad_norm: str | None = planned(None, "与之比较的梯度范数文件", "file of gradient norms to compare with")
