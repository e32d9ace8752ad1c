"""Advantages, the policy loss and its corrections."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import MAX_SEED, NEWER_SLIME, Flag, flag, planned
from slime.config.import_paths import is_named

# The name of IcePop in shells, and the earlier name that existing shells carry. They are compared, not imported.
ICEPOP = "slime.algorithms.corrections.icepop"
ICEPOP_NAMES = (ICEPOP, "slime.backends.megatron_utils.loss.icepop_function")
MIS = "slime.algorithms.mismatch.mismatch_weights"
MIS_NAMES = (MIS, "examples.train_infer_mismatch_helper.mis.compute_mis_weights_with_cp")
DR_GRPO = "slime.algorithms.reduction.constant_length_weights"
DR_GRPO_NAMES = (DR_GRPO, "examples.DrGRPO.custom_reducer.get_pg_loss_reducer")
OWN_FUNCTIONS = {
    "custom_tis_function_path": (*ICEPOP_NAMES, *MIS_NAMES),
    "custom_pg_loss_reducer_function_path": DR_GRPO_NAMES,
}
"""Field -> names that stand for the runtime's own functions where a function of the user's may stand."""
LEVELS = ("token", "sequence", "geometric")


def names_own_function(flag: Flag, path: str) -> bool:
    """Whether a flag's value stands for one of the runtime's own functions: compared, never imported as a hook."""
    return is_named(path, (*OWN_FUNCTIONS.get(flag.field, ()), *(flag.only or ()), *flag.not_yet))


@dataclass(frozen=True)
class AlgorithmFlags:
    """The estimator, clipping, regularisation and how tokens are averaged."""

    advantage_estimator: str = flag(
        "grpo",
        "优势估计方法",
        "advantage estimator",
        choices=("grpo", "gspo", "cispo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo"),
    )
    pg_loss_type: str | None = flag(
        None, "策略损失的形式", "form of the policy loss", choices=("ppo", "reinforce"), since=NEWER_SLIME
    )
    loss_type: str = flag(
        "policy_loss",
        "损失类型",
        "loss",
        choices=("policy_loss", "sft_loss", "custom_loss"),
    )
    custom_loss_function_path: str | None = flag(None, "自定义损失函数", "import path of a loss function")
    custom_advantage_function_path: str | None = flag(None, "自定义优势函数", "import path of an advantage function")
    custom_pg_loss_reducer_function_path: str | None = flag(
        None,
        f"策略损失的归约函数；{DR_GRPO} 即 Dr.GRPO，除以 --rollout-max-response-len",
        f"import path of a reducer of the policy loss; {DR_GRPO} is Dr.GRPO's, which divides by "
        "--rollout-max-response-len",
    )
    eps_clip: float = flag(0.2, "比率裁剪的下侧宽度", "lower width of the ratio's clip", minimum=0)
    eps_clip_high: float = flag(
        None,
        "比率裁剪的上侧宽度，默认同 --eps-clip",
        "upper width of the ratio's clip, by default --eps-clip",
        minimum=0,
    )
    eps_clip_c: float | None = flag(None, "双侧裁剪的常数，大于 1", "constant of the dual clip, above 1", above=1)
    value_clip: float = flag(0.2, "价值裁剪宽度", "width of the value clip", minimum=0)
    num_critic_only_steps: int = flag(0, "只训练 critic 的轮数", "rounds that train the critic alone", minimum=0)
    critic_load: str | None = flag(
        None,
        "critic 的起点，默认同 --ref-load",
        "checkpoint that the critic starts from, by default --ref-load",
        source="own",
    )
    critic_lr: float | None = flag(
        None, "critic 的学习率，默认同 --lr", "learning rate of the critic, by default --lr", above=0, source="own"
    )
    critic_lr_warmup_iters: int | None = flag(
        None,
        "critic 的预热步数，默认同 --lr-warmup-iters",
        "warm-up steps of the critic, by default --lr-warmup-iters",
        minimum=0,
        source="own",
    )
    kl_coef: float = flag(0.0, "奖励中的 KL 系数", "coefficient of the KL term in the reward", minimum=0)
    use_kl_loss: bool = flag(False, "在损失中加入 KL", "add a KL term to the loss")
    kl_loss_coef: float = flag(0.0, "损失中的 KL 系数", "coefficient of the KL term in the loss", minimum=0)
    kl_loss_type: str = flag("k1", "KL 的估计式", "estimator of the KL term", choices=("k1", "k2", "k3", "low_var_kl"))
    use_unbiased_kl: bool = flag(False, "KL 用重要性权重修正", "weight the KL term by the importance ratio")
    entropy_coef: float = flag(0.0, "熵奖励系数", "coefficient of the entropy bonus", minimum=0)
    gamma: float = flag(1.0, "折扣因子", "discount", minimum=0, maximum=1)
    lambd: float = flag(1.0, "GAE 的 lambda", "lambda of GAE", minimum=0, maximum=1)
    normalize_advantages: bool = flag(False, "对整批优势做白化", "whiten the advantages of the whole batch")
    disable_grpo_std_normalization: bool = flag(
        False, "组内只减均值，不除标准差", "subtract the group's mean but do not divide by its deviation"
    )
    disable_rewards_normalization: bool = flag(False, "不做组内归一化", "do not normalise rewards inside a group")
    calculate_per_token_loss: bool = flag(
        False, "损失按全部 token 平均，而不是先按回答平均", "average the loss over all tokens instead of per response"
    )
    disable_compute_advantages_and_returns: bool = flag(
        False, "不计算优势，用于 SFT", "compute no advantages, for supervised training"
    )
    use_rollout_entropy: bool = planned(
        False, "在计算对数概率时一并记录熵", "keep the entropies of the log-probability pass"
    )
    ref_update_interval: int | None = flag(
        None, "每隔多少轮更新参考策略", "rounds between two updates of the reference policy", minimum=1
    )
    seed: int = flag(1234, "训练种子", "seed of the trainer", minimum=0, maximum=MAX_SEED, source="megatron")


@dataclass(frozen=True)
class CorrectionFlags:
    """Corrections for samplers that differ from the trainer."""

    use_tis: bool = flag(
        False,
        "截断重要性采样：用训练端与采样端的概率比加权",
        "truncated importance sampling: weight by trainer over sampler",
    )
    tis_clip: float = flag(2.0, "重要性权重的上限", "upper limit of the importance weight", above=0)
    tis_clip_low: float = flag(0.0, "重要性权重的下限", "lower limit of the importance weight", minimum=0)
    custom_tis_function_path: str | None = flag(
        None,
        f"替换 TIS 的函数；{ICEPOP} 即 IcePop，{MIS} 即 MIS",
        f"import path of a function that replaces TIS; {ICEPOP} is IcePop, {MIS} is MIS",
    )
    tis_level: str = flag("token", "MIS：权重所属的层级", "MIS: what a weight belongs to", choices=LEVELS, source="own")
    tis_mode: str = flag(
        "truncate",
        "MIS：越界的权重如何处理",
        "MIS: what happens to weights outside the bounds",
        choices=("truncate", "clip", "mask"),
        source="own",
    )
    tis_upper_bound: float = flag(2.0, "MIS：权重的上界", "MIS: upper bound of a weight", above=0, source="own")
    tis_lower_bound: float | None = flag(
        None,
        "MIS：权重的下界，默认为上界的倒数",
        "MIS: lower bound of a weight, by default 1 / upper",
        minimum=0,
        source="own",
    )
    tis_batch_normalize: bool = flag(
        False,
        "MIS：权重除以其在一个优化步内的均值",
        "MIS: divide weights by their mean over the optimizer step",
        source="own",
    )
    use_rs: bool = flag(
        False, "MIS：剔除比率越界的部分", "MIS: reject what has a ratio outside the bounds", source="own"
    )
    rs_level: str = flag("token", "MIS：剔除的层级", "MIS: what is rejected", choices=LEVELS, source="own")
    rs_upper_bound: float | None = flag(
        None,
        "MIS：剔除的上界，默认同权重",
        "MIS: upper bound of rejection, by default that of weights",
        above=0,
        source="own",
    )
    rs_lower_bound: float | None = flag(
        None,
        "MIS：剔除的下界，默认同权重",
        "MIS: lower bound of rejection, by default that of weights",
        minimum=0,
        source="own",
    )
    rs_veto_threshold: float | None = flag(
        None,
        "MIS：有一个 token 的比率低于它，就剔除整条回答",
        "MIS: reject a response with one token whose ratio is below this",
        above=0,
        maximum=1,
        source="own",
    )
    keep_old_actor: bool = planned(
        False, "训练端另存一份采样时的策略", "keep a separate copy of the sampling policy in the trainer"
    )
    use_rollout_logprobs: bool = flag(
        False, "用采样端的对数概率作旧策略", "take the sampler's log-probabilities as the old policy"
    )
    get_mismatch_metrics: bool = flag(
        False, "只记录训推差异的指标", "record the metrics of the train-inference mismatch alone"
    )
    use_routing_replay: bool = flag(False, "训练端重放自己的专家路由", "replay the trainer's own expert routes")
    use_rollout_routing_replay: bool = flag(
        False, "训练端重放采样端的专家路由（R3）", "replay the sampler's expert routes in the trainer (R3)"
    )
    routing_replay_prefetch_microbatches: int = planned(
        1, "预取路由的 micro-batch 数", "micro-batches whose routes are prefetched", minimum=0, since=NEWER_SLIME
    )
    use_score_centering: bool = flag(False, "score 中心化（SC）", "score centering (SC)", since=NEWER_SLIME)
    score_centering_top_k: int = flag(
        128, "SC 使用的采样端 top-k", "sampler's top-k that SC uses", minimum=1, since=NEWER_SLIME
    )
    use_opsm: bool = flag(False, "屏蔽偏离过大的负样本序列", "mask negative sequences that are too far off-policy")
    opsm_delta: float = flag(1e-4, "OPSM 的 KL 阈值", "KL threshold of OPSM", minimum=0)
    use_opd: bool = flag(False, "on-policy 蒸馏", "on-policy distillation")
    opd_type: str | None = flag(
        None, "教师所在的一端", "where the teacher runs", choices=("sglang", "megatron"), only=("megatron",)
    )
    opd_kl_coef: float = flag(1.0, "蒸馏的 KL 系数", "coefficient of the distillation", minimum=0)
    opd_teacher_load: str | None = flag(None, "教师 checkpoint", "checkpoint of the teacher")
    opd_teacher_ckpt_step: int | None = flag(
        None, "教师 checkpoint 的步", "step of the teacher's checkpoint", minimum=0
    )
    deterministic_mode: bool = planned(False, "训练端确定性模式", "deterministic trainer", source="megatron")
