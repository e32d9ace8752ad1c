"""Estimator, loss, corrections, sampling and the optimizer's schedule."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.errors import Problem

GROUP_ESTIMATORS = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")


def validate_group_size(config: Config) -> Iterator[Problem]:
    """Advantages inside a group need at least two answers."""
    if config.advantage_estimator in GROUP_ESTIMATORS and config.n_samples_per_prompt < 2:
        yield Problem(
            "cfg",
            f"--advantage-estimator {config.advantage_estimator} compares the answers to one prompt, and "
            f"--n-samples-per-prompt {config.n_samples_per_prompt} leaves nothing to compare",
            "give at least 2; 8 is usual",
            ("--n-samples-per-prompt",),
        )


def validate_clip(config: Config) -> Iterator[Problem]:
    """Clip and weight limits are in order."""
    low, high = config.eps_clip, config.eps_clip_high
    if low > high:
        yield Problem(
            "cfg",
            f"--eps-clip {low} is above --eps-clip-high {high}: the clip would be wider below than above",
            f"give --eps-clip-high of at least {low}",
            ("--eps-clip", "--eps-clip-high"),
        )
    if low > 1 or (low == 1 and config.advantage_estimator != "cispo"):
        yield Problem(
            "cfg",
            f"--eps-clip {low} puts the lower limit of the ratio at {1 - low:g}: it would never clip",
            "give a value below 1; 0.2 is usual",
            ("--eps-clip",),
        )
    if config.tis_clip_low >= config.tis_clip:
        yield Problem(
            "cfg",
            f"--tis-clip-low {config.tis_clip_low} is not below --tis-clip {config.tis_clip}: no weight lies between",
            f"give --tis-clip-low below {config.tis_clip}",
            ("--tis-clip-low", "--tis-clip"),
        )


def validate_corrections(config: Config) -> Iterator[Problem]:
    """What corrections need and exclude."""
    if config.custom_tis_function_path and not config.use_tis and not config.get_mismatch_metrics:
        yield Problem("cfg", "--custom-tis-function-path replaces the function of --use-tis", "add --use-tis")
    if config.use_tis and config.use_rollout_logprobs:
        yield Problem(
            "cfg",
            "--use-tis and --use-rollout-logprobs exclude each other: with the sampler's own log-probabilities as old "
            "policy the weight is always 1",
            "drop one of them",
        )
    ratio = next(
        (
            name
            for name, on in (
                ("--use-tis", config.use_tis),
                ("--use-rollout-logprobs", config.use_rollout_logprobs),
                ("--use-score-centering", config.use_score_centering),
            )
            if on
        ),
        None,
    )
    if ratio and config.rollout_top_k != -1:
        yield Problem(
            "cfg",
            f"{ratio} divides by the sampler's probability, and --rollout-top-k {config.rollout_top_k} changes what "
            "that is: the trainer has no such cut",
            "give --rollout-top-k -1",
            ("--rollout-top-k", ratio),
        )
    if ratio and config.rollout_top_p != 1 and not config.use_score_centering:
        yield Problem(
            "cfg",
            f"{ratio} divides by the sampler's probability, and --rollout-top-p {config.rollout_top_p} renormalises it",
            "give --rollout-top-p 1",
            ("--rollout-top-p", ratio),
        )
    if config.mask_offpolicy_in_partial_rollout and not config.partial_rollout:
        yield Problem(
            "cfg", "--mask-offpolicy-in-partial-rollout masks what --partial-rollout keeps", "add --partial-rollout"
        )


def validate_sampling(config: Config) -> Iterator[Problem]:
    """A top-k is -1 (all tokens) or a number of tokens."""
    for name, value in (("--rollout-top-k", config.rollout_top_k), ("--eval-top-k", config.eval_top_k)):
        if value == 0:
            yield Problem("cfg", f"{name} 0 leaves no token to draw", "give -1 for all tokens, or at least 1", (name,))


def validate_kl(config: Config) -> Iterator[Problem]:
    """One KL term, with a reference to measure it from."""
    loss = config.use_kl_loss and config.kl_loss_coef != 0
    if config.kl_coef != 0 and config.kl_loss_coef != 0:
        yield Problem(
            "cfg",
            f"--kl-coef {config.kl_coef} and --kl-loss-coef {config.kl_loss_coef} count the KL term twice",
            "set one of them to 0",
            ("--kl-coef", "--kl-loss-coef"),
        )
    if (config.kl_coef != 0 or loss) and not config.ref_load:
        yield Problem("cfg", "the KL term is measured from the reference policy", "give --ref-load", ("--ref-load",))
    if config.use_kl_loss and config.kl_loss_coef == 0:
        yield Problem(
            "cfg",
            "--use-kl-loss with --kl-loss-coef 0 loads a reference model for a metric alone",
            "give a coefficient, or drop --use-kl-loss",
            ("--use-kl-loss",),
            severity="warning",
        )


def validate_estimator(config: Config) -> Iterator[Problem]:
    """What single estimators need."""
    whitened = config.advantage_estimator in ("reinforce_plus_plus", "reinforce_plus_plus_baseline")
    if whitened and not config.normalize_advantages:
        yield Problem(
            "cfg",
            f"--advantage-estimator {config.advantage_estimator} is defined on whitened advantages",
            "add --normalize-advantages",
            ("--normalize-advantages",),
        )
    if config.use_score_centering and config.advantage_estimator in ("gspo", "cispo"):
        yield Problem(
            "cfg",
            f"--use-score-centering has no form for --advantage-estimator {config.advantage_estimator}",
            "give --advantage-estimator grpo",
        )


def validate_dropout(config: Config) -> Iterator[Problem]:
    """The trainer's old and new log-probabilities come from the same network."""
    for name, value in (
        ("--attention-dropout", config.attention_dropout),
        ("--hidden-dropout", config.hidden_dropout),
    ):
        if value != 0:
            yield Problem(
                "cfg",
                f"{name} {value}: with dropout the ratio of new to old policy is not 1 before the first step",
                f"give {name} 0",
                (name,),
            )


def validate_schedule(config: Config) -> Iterator[Problem]:
    """The learning rate reaches its value before the run ends."""
    if config.global_batch_size and config.lr_warmup_iters >= config.train_iters > 0:
        yield Problem(
            "cfg",
            f"--lr-warmup-iters {config.lr_warmup_iters} covers all {config.train_iters} steps of the run "
            f"({config.num_rollout} rounds x {config.steps_per_rollout}): --lr {config.lr} is never reached",
            f"give --lr-warmup-iters below {config.train_iters}, or more rounds",
            ("--lr-warmup-iters", "--num-rollout"),
            severity="warning",
        )
