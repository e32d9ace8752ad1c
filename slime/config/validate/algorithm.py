"""Estimator, loss, corrections, sampling and the optimizer's schedule."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule
from slime.config.validate.batch import GROUP_ESTIMATORS
from slime.config.validate.objective import CHECKS


def check_group_size(config: Config) -> Iterator[Finding]:
    """Advantages inside a group need at least two answers, unless a teacher or given answers say what is right."""
    taught = config.use_opd or config.loss_type == "sft_loss"
    if config.advantage_estimator in GROUP_ESTIMATORS and config.n_samples_per_prompt < 2 and not taught:
        yield Finding(
            f"--advantage-estimator {config.advantage_estimator} compares the answers to one prompt, and "
            f"--n-samples-per-prompt {config.n_samples_per_prompt} leaves nothing to compare",
            "give at least 2; 8 is usual",
            ("--n-samples-per-prompt",),
        )


def check_clip(config: Config) -> Iterator[Finding]:
    """Clip and weight limits are in order."""
    low, high = config.eps_clip, config.eps_clip_high
    if low > high:
        yield Finding(
            f"--eps-clip {low} is above --eps-clip-high {high}: the clip would be wider below than above",
            f"give --eps-clip-high of at least {low}",
            ("--eps-clip", "--eps-clip-high"),
        )
    if low > 1 or (low == 1 and config.advantage_estimator != "cispo"):
        yield Finding(
            f"--eps-clip {low} puts the lower limit of the ratio at {1 - low:g}: it would never clip",
            "give a value below 1; 0.2 is usual",
            ("--eps-clip",),
        )
    if config.tis_clip_low >= config.tis_clip:
        yield Finding(
            f"--tis-clip-low {config.tis_clip_low} is not below --tis-clip {config.tis_clip}: no weight lies between",
            f"give --tis-clip-low below {config.tis_clip}",
            ("--tis-clip-low", "--tis-clip"),
        )


def check_corrections(config: Config) -> Iterator[Finding]:
    """What corrections need and exclude."""
    if config.custom_tis_function_path and not config.use_tis and not config.get_mismatch_metrics:
        yield Finding(
            "--custom-tis-function-path replaces the function of --use-tis, which is off",
            "add --use-tis",
            ("--custom-tis-function-path", "--use-tis"),
        )
    if config.use_tis and config.use_rollout_logprobs:
        yield Finding(
            "--use-tis and --use-rollout-logprobs exclude each other: with the sampler's own log-probabilities as old "
            "policy the weight is always 1",
            "drop one of them",
            ("--use-tis", "--use-rollout-logprobs"),
        )
    if config.mask_offpolicy_in_partial_rollout and not config.partial_rollout:
        yield Finding(
            "--mask-offpolicy-in-partial-rollout masks what --partial-rollout keeps, and that is off",
            "add --partial-rollout",
            ("--mask-offpolicy-in-partial-rollout", "--partial-rollout"),
        )


def ratio_flag(config: Config) -> str | None:
    """The flag that makes training divide by the sampler's probability; None when nothing does."""
    for name, on in (
        ("--use-tis", config.use_tis),
        ("--use-rollout-logprobs", config.use_rollout_logprobs),
        ("--use-score-centering", config.use_score_centering),
    ):
        if on:
            return name
    return None


def check_sampler_probability(config: Config) -> Iterator[Finding]:
    """Whoever divides by the sampler's probability gets the one that the trainer can compute too."""
    ratio = ratio_flag(config)
    if ratio and config.rollout_top_k != -1:
        yield Finding(
            f"{ratio} divides by the sampler's probability, and --rollout-top-k {config.rollout_top_k} changes what "
            "that is: the trainer has no such cut",
            "give --rollout-top-k -1",
            ("--rollout-top-k", ratio),
        )
    if ratio and config.rollout_top_p != 1 and not config.use_score_centering:
        yield Finding(
            f"{ratio} divides by the sampler's probability, and --rollout-top-p {config.rollout_top_p} renormalises it",
            "give --rollout-top-p 1",
            ("--rollout-top-p", ratio),
        )


def check_sampling(config: Config) -> Iterator[Finding]:
    """A top-k is -1 (all tokens) or a number of tokens."""
    for name, value in (("--rollout-top-k", config.rollout_top_k), ("--eval-top-k", config.eval_top_k)):
        if value == 0:
            yield Finding(f"{name} 0 leaves no token to draw", "give -1 for all tokens, or at least 1", (name,))


def check_kl(config: Config) -> Iterator[Finding]:
    """One KL term, with a reference to measure it from."""
    loss = config.use_kl_loss and config.kl_loss_coef != 0
    if config.kl_coef != 0 and config.kl_loss_coef != 0:
        yield Finding(
            f"--kl-coef {config.kl_coef} and --kl-loss-coef {config.kl_loss_coef} count the KL term twice",
            "set one of them to 0",
            ("--kl-coef", "--kl-loss-coef"),
        )
    if (config.kl_coef != 0 or loss) and not config.ref_load:
        flag = "--kl-coef" if config.kl_coef != 0 else "--kl-loss-coef"
        yield Finding(
            f"{flag} penalises the distance from a reference policy, and --ref-load does not name one",
            "give --ref-load, usually the checkpoint that training starts from",
            ("--ref-load", flag),
        )
    if config.use_kl_loss and config.kl_loss_coef == 0:
        yield Finding(
            "--use-kl-loss with --kl-loss-coef 0 loads a reference model for a metric alone",
            "give a coefficient, or drop --use-kl-loss",
            ("--use-kl-loss",),
            severity="warning",
        )


def check_estimator(config: Config) -> Iterator[Finding]:
    """What single estimators need."""
    whitened = config.advantage_estimator in ("reinforce_plus_plus", "reinforce_plus_plus_baseline")
    if whitened and not config.normalize_advantages:
        yield Finding(
            f"--advantage-estimator {config.advantage_estimator} is defined on whitened advantages",
            "add --normalize-advantages",
            ("--normalize-advantages",),
        )
    if config.use_score_centering and config.advantage_estimator in ("gspo", "cispo"):
        yield Finding(
            f"--use-score-centering has no form for --advantage-estimator {config.advantage_estimator}",
            "give --advantage-estimator grpo",
            ("--use-score-centering", "--advantage-estimator"),
        )


def check_dropout(config: Config) -> Iterator[Finding]:
    """The trainer's old and new log-probabilities come from the same network."""
    for name, value in (
        ("--attention-dropout", config.attention_dropout),
        ("--hidden-dropout", config.hidden_dropout),
    ):
        if value != 0:
            yield Finding(
                f"{name} {value}: with dropout the ratio of new to old policy is not 1 before the first step",
                f"give {name} 0",
                (name,),
            )


def check_combinations(config: Config) -> Iterator[Finding]:
    """Estimator, clip, KL and corrections fit each other."""
    for check in (check_group_size, check_clip, check_corrections, check_kl, check_estimator, *CHECKS):
        yield from check(config)


RULES = (
    Rule(
        id="sampler-probability",
        row=58,
        source="verl#6240, prime-rl#2601",
        title=Text("采样端的对数概率与训练端可比", "The sampler's log-probabilities compare with the trainer's"),
        why=Text(
            "top-k、top-p 会改变采样端的分布，训练端没有同样的截断；比率因此有偏，却看不出来。",
            "top-k and top-p change the sampler's distribution and the trainer has no such cut, so ratios are biased "
            "without a sign.",
        ),
        cfg=check_sampler_probability,
    ),
    Rule(
        id="dropout",
        row=60,
        source="",
        title=Text("dropout 为 0", "Dropout is 0"),
        why=Text(
            "有 dropout 时，新旧策略在第一步之前就不相同；Megatron 自己的默认值是 0.1。",
            "With dropout the new and the old policy differ before the first step; Megatron's own default is 0.1.",
        ),
        cfg=check_dropout,
    ),
    Rule(
        id="algorithm",
        row=62,
        source="",
        title=Text("估计方法、裁剪、KL 与修正彼此相容", "Estimator, clip, KL and corrections fit each other"),
        why=Text(
            "单独看都合法的参数，合在一起可能重复计算 KL、永远不裁剪，或者让一组里没有可以比较的回答。",
            "Flags that are legal one by one can count the KL twice together, never clip, or leave nothing to compare "
            "in a group.",
        ),
        cfg=check_combinations,
    ),
    Rule(
        id="sampling",
        title=Text("采样至少留下一个 token", "Sampling leaves at least one token"),
        why=Text("top-k 为 0 时没有 token 可选。", "A top-k of 0 leaves nothing to choose from."),
        cfg=check_sampling,
    ),
)
