"""What the parts of the training objective need and exclude: KL, critic, corrections, distillation, supervision."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.groups.algorithm import ICEPOP_NAMES, MIS, MIS_NAMES
from slime.config.import_paths import is_named
from slime.config.rule import Finding

KL_ESTIMATORS = ("reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo")
"""Estimators that have a KL penalty in the reward; the others compare rewards inside a group."""
MIS_FIELDS = (
    "tis_level", "tis_mode", "tis_upper_bound", "tis_lower_bound", "tis_batch_normalize", "use_rs", "rs_level",
    "rs_upper_bound", "rs_lower_bound", "rs_veto_threshold",
)  # fmt: skip
CRITIC_FIELDS = ("critic_load", "critic_lr", "critic_lr_warmup_iters", "num_critic_only_steps", "value_clip")


def check_kl_penalty(config: Config) -> Iterator[Finding]:
    """A KL penalty in the reward goes where the estimator has one."""
    if config.kl_coef != 0 and config.advantage_estimator not in KL_ESTIMATORS:
        yield Finding(
            f"--kl-coef {config.kl_coef} penalises tokens in the reward, and --advantage-estimator "
            f"{config.advantage_estimator} makes one advantage of a response's reward alone",
            f"give --use-kl-loss with --kl-loss-coef {config.kl_coef}, or one of {', '.join(KL_ESTIMATORS)}",
            ("--kl-coef", "--advantage-estimator"),
        )
    if config.kl_loss_coef != 0 and not config.use_kl_loss:
        yield Finding(
            f"--kl-loss-coef {config.kl_loss_coef} counts nothing without --use-kl-loss",
            "add --use-kl-loss",
            ("--use-kl-loss", "--kl-loss-coef"),
        )


def check_loss_form(config: Config) -> Iterator[Finding]:
    """The form of the loss fits the estimator and the corrections."""
    if config.pg_loss_type is not None and config.advantage_estimator in ("gspo", "cispo"):
        yield Finding(
            f"--pg-loss-type {config.pg_loss_type} replaces the loss that makes --advantage-estimator "
            f"{config.advantage_estimator} what it is",
            "drop --pg-loss-type, or give --advantage-estimator grpo",
            ("--pg-loss-type", "--advantage-estimator"),
        )
    if config.eps_clip_c is not None and config.advantage_estimator == "cispo":
        yield Finding(
            "--eps-clip-c limits the clipped loss, which --advantage-estimator cispo does not use",
            "drop --eps-clip-c",
            ("--eps-clip-c",),
        )


def check_score_centering(config: Config) -> Iterator[Finding]:
    """Score centering is derived for the REINFORCE loss, token weights, and a sampler whose distribution is known."""
    if not config.use_score_centering:
        return
    excluded = {
        "--pg-loss-type": config.pg_loss_type == "ppo",
        "--loss-type": config.loss_type != "policy_loss",
        "--use-opd": config.use_opd,
        "--use-opsm": config.use_opsm,
        "--get-mismatch-metrics": config.get_mismatch_metrics,
        "--use-unbiased-kl": config.use_unbiased_kl,
        "--custom-pg-loss-reducer-function-path": config.custom_pg_loss_reducer_function_path is not None,
        "--custom-tis-function-path": config.custom_tis_function_path is not None
        and not is_named(config.custom_tis_function_path, ICEPOP_NAMES),
    }
    for name in (name for name, on in excluded.items() if on):
        value = getattr(config, name[2:].replace("-", "_"))
        yield Finding(
            f"--use-score-centering is derived without {name}{'' if value is True else f' {value}'}",
            f"drop {name}",
            ("--use-score-centering", name),
        )
    if config.rollout_top_p != 1:
        yield Finding(
            f"--use-score-centering needs the sampler's whole distribution, and --rollout-top-p {config.rollout_top_p} "
            "cuts it; centering over what top-p kept is not run yet",
            "give --rollout-top-p 1",
            ("--use-score-centering", "--rollout-top-p"),
        )


def check_mis(config: Config) -> Iterator[Finding]:
    """Flags of MIS come with MIS, and its limits are in order."""
    on = is_named(config.custom_tis_function_path, MIS_NAMES)
    unused = [field for field in MIS_FIELDS if _given(config, field)]
    if unused and not on:
        names = tuple("--" + field.replace("_", "-") for field in unused)
        yield Finding(
            f"{', '.join(names)}: only MIS reads that",
            f"give --use-tis --custom-tis-function-path {MIS}",
            ("--custom-tis-function-path", *names),
        )
    low = 1 / config.tis_upper_bound if config.tis_lower_bound is None else config.tis_lower_bound
    limits = {"tis": (low, config.tis_upper_bound)}
    limits["rs"] = (
        low if config.rs_lower_bound is None else config.rs_lower_bound,
        config.tis_upper_bound if config.rs_upper_bound is None else config.rs_upper_bound,
    )
    for name, (lower, upper) in limits.items():
        if on and lower >= upper:
            yield Finding(
                f"--{name}-lower-bound {lower:g} is not below --{name}-upper-bound {upper:g}: nothing lies between",
                f"give --{name}-lower-bound below {upper:g}",
                (f"--{name}-lower-bound", f"--{name}-upper-bound"),
            )


def check_critic(config: Config) -> Iterator[Finding]:
    """A critic's flags come with a critic, and leave the policy rounds to train in."""
    unused = [field for field in CRITIC_FIELDS if _given(config, field)]
    if unused and config.advantage_estimator != "ppo":
        names = tuple("--" + field.replace("_", "-") for field in unused)
        yield Finding(
            f"{', '.join(names)}: only --advantage-estimator ppo has a critic",
            "give --advantage-estimator ppo, or drop it",
            ("--advantage-estimator", *names),
        )
    if config.advantage_estimator == "ppo" and 0 < (config.num_rollout or 0) <= config.num_critic_only_steps:
        yield Finding(
            f"--num-critic-only-steps {config.num_critic_only_steps} covers all {config.num_rollout} rounds: the "
            "policy would never be trained",
            f"give fewer than {config.num_rollout}",
            ("--num-critic-only-steps", "--num-rollout"),
        )


def check_distillation(config: Config) -> Iterator[Finding]:
    """A teacher has weights, and is used."""
    if config.use_opd and config.opd_type is None:
        yield Finding("--use-opd needs to know where the teacher runs", "give --opd-type megatron", ("--opd-type",))
    if config.use_opd and config.opd_type == "megatron" and not config.opd_teacher_load:
        yield Finding(
            "--opd-type megatron computes the teacher's log-probabilities in the trainer, and there is no teacher",
            "give --opd-teacher-load, a checkpoint of the same architecture",
            ("--opd-teacher-load",),
        )
    unused = [field for field in ("opd_type", "opd_kl_coef", "opd_teacher_load") if _given(config, field)]
    if unused and not config.use_opd:
        names = tuple("--" + field.replace("_", "-") for field in unused)
        yield Finding(f"{', '.join(names)}: read by --use-opd alone", "add --use-opd", ("--use-opd", *names))


def check_custom_loss(config: Config) -> Iterator[Finding]:
    """A loss of the user's is named, and used."""
    path = config.custom_loss_function_path
    if config.loss_type == "custom_loss" and not path:
        flags = ("--loss-type", "--custom-loss-function-path")
        yield Finding("--loss-type custom_loss is a function of yours", "give --custom-loss-function-path", flags)
    if path and config.loss_type != "custom_loss":
        yield Finding(
            f"--custom-loss-function-path {path} is not read with --loss-type {config.loss_type}",
            "give --loss-type custom_loss",
            ("--loss-type", "--custom-loss-function-path"),
        )


def check_advantages(config: Config) -> Iterator[Finding]:
    """The policy loss is a product with advantages."""
    if config.disable_compute_advantages_and_returns and config.loss_type == "policy_loss":
        yield Finding(
            "--disable-compute-advantages-and-returns leaves --loss-type policy_loss nothing to weigh tokens with",
            "drop it, or give --loss-type sft_loss or custom_loss",
            ("--disable-compute-advantages-and-returns", "--loss-type"),
        )


def check_supervision(config: Config) -> Iterator[Finding]:
    """Supervised training has no sampler to compare with and no rewards."""
    if config.loss_type != "sft_loss":
        return
    excluded = {
        "--use-tis": config.use_tis,
        "--use-kl-loss": config.use_kl_loss,
        "--kl-coef": config.kl_coef != 0,
        "--use-opd": config.use_opd,
        "--use-opsm": config.use_opsm,
        "--normalize-advantages": config.normalize_advantages,
        "--entropy-coef": config.entropy_coef != 0,
        "--advantage-estimator": config.advantage_estimator == "ppo",
    }
    for name in (name for name, on in excluded.items() if on):
        yield Finding(
            f"--loss-type sft_loss learns given answers, and {name} belongs to answers that were sampled",
            f"drop {name}, or give --loss-type policy_loss",
            (name, "--loss-type"),
        )


def _given(config: Config, field: str) -> bool:
    """Whether the user gave the flag, rather than its default or a derived value."""
    return config.origins.get(field, "derived") != "derived"


CHECKS = (
    check_kl_penalty,
    check_loss_form,
    check_score_centering,
    check_mis,
    check_critic,
    check_distillation,
    check_custom_loss,
    check_advantages,
    check_supervision,
)
