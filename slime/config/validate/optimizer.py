"""Adam's schedule and where its state lies: which flags belong together."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule


def check_learning_rates(config: Config) -> Iterator[Finding]:
    """A learning rate rises from the lowest value to the highest, and falls to the lowest."""
    rates = [("--lr", config.lr)]
    if config.advantage_estimator == "ppo" and config.critic_lr is not None:
        rates.append(("--critic-lr", config.critic_lr))
    for name, rate in rates:
        for low, value in (("--min-lr", config.min_lr), ("--lr-warmup-init", config.lr_warmup_init)):
            if value > rate:
                yield Finding(
                    f"{low} {value} is above {name} {rate}, the highest rate of the schedule",
                    f"give {low} of at most {rate}",
                    (low, name),
                )
    if config.lr_decay_style == "constant" and config.min_lr > 0:
        yield Finding(
            f"--min-lr {config.min_lr} with --lr-decay-style constant: a constant rate never falls to it",
            "drop --min-lr, or give --lr-decay-style linear, cosine or inverse-square-root",
            ("--min-lr", "--lr-decay-style"),
        )
    if config.lr_decay_style == "constant" and config.lr_decay_iters is not None:
        yield Finding(
            f"--lr-decay-iters {config.lr_decay_iters} with --lr-decay-style constant: nothing falls",
            "drop --lr-decay-iters, or give --lr-decay-style linear, cosine or inverse-square-root",
            ("--lr-decay-iters", "--lr-decay-style"),
        )
    if config.lr_warmup_init > 0 and not config.lr_warmup_iters and not config.lr_warmup_fraction:
        yield Finding(
            f"--lr-warmup-init {config.lr_warmup_init} without a warm-up: no step has that rate",
            "add --lr-warmup-iters or --lr-warmup-fraction, or drop --lr-warmup-init",
            ("--lr-warmup-init", "--lr-warmup-iters"),
        )


def check_zero_rates(config: Config) -> Iterator[Finding]:
    """Steps that change nothing. The last step of a decay has the rate of --min-lr, and 0 is its default."""
    if not config.global_batch_size or config.lr_decay_style == "constant" or config.min_lr > 0:
        return
    steps = config.train_iters
    idle = steps - (config.lr_decay_iters or steps) + 1
    if idle > 1 or idle == steps:
        yield Finding(
            f"{min(idle, steps)} of {steps} steps have a learning rate of 0: --lr-decay-style {config.lr_decay_style} "
            f"ends with step {min(config.lr_decay_iters or steps, steps)}, and --min-lr is 0",
            "give --min-lr, or --lr-decay-iters of all steps or more",
            ("--min-lr", "--lr-decay-iters"),
            "warning",
        )


def check_warmup(config: Config) -> Iterator[Finding]:
    """The rise is over before the fall ends."""
    fraction, warmup = config.lr_warmup_fraction, config.lr_warmup_iters
    if fraction is not None and warmup:
        yield Finding(
            f"--lr-warmup-fraction {fraction} and --lr-warmup-iters {warmup} both say how long the rate rises",
            "keep one of them",
            ("--lr-warmup-fraction", "--lr-warmup-iters"),
        )
    if not config.global_batch_size or config.lr_decay_style == "constant":
        return
    steps = config.lr_decay_iters or config.train_iters
    rises = warmup if fraction is None else fraction * steps
    if rises >= max(steps, 1):
        yield Finding(
            f"the learning rate rises for {rises:g} steps and is to have fallen after {steps} "
            "(--lr-decay-iters, by default all steps of the run)",
            f"{f'rise for fewer than {steps} steps' if steps > 1 else 'drop the rise'}, or give more --lr-decay-iters",
            ("--lr-warmup-iters", "--lr-warmup-fraction", "--lr-decay-iters"),
        )


def check_weight_decay(config: Config) -> Iterator[Finding]:
    """Weight decay grows from its start to its end, or has one value."""
    start, end, style = config.start_weight_decay, config.end_weight_decay, config.weight_decay_incr_style
    flags = ("--start-weight-decay", "--end-weight-decay", "--weight-decay-incr-style")
    if style == "constant":
        given = [f"{name} {one}" for name, one in zip(flags, (start, end), strict=False) if one is not None]
        if given:
            yield Finding(
                f"{' and '.join(given)} with --weight-decay-incr-style constant, which takes the one value of "
                "--weight-decay",
                f"give --weight-decay-incr-style linear or cosine, or drop {'both' if len(given) == 2 else 'it'}",
                flags,
            )
    elif start is None or end is None:
        missing = "--start-weight-decay" if start is None else "--end-weight-decay"
        yield Finding(f"--weight-decay-incr-style {style} without {missing}", f"give {missing}", flags)
    elif start > end:
        yield Finding(
            f"--start-weight-decay {start} is above --end-weight-decay {end}: the schedule only grows",
            f"give --end-weight-decay of at least {start}",
            flags,
        )


def check_offload(config: Config) -> Iterator[Finding]:
    """What belongs to the optimizer in host memory is given with it, and does not take it back."""
    if config.optimizer_cpu_offload:
        if config.optimizer_offload_fraction == 0:
            yield Finding(
                "--optimizer-cpu-offload with --optimizer-offload-fraction 0.0: nothing is offloaded",
                "drop both, or give a fraction above 0, up to 1",
                ("--optimizer-offload-fraction", "--optimizer-cpu-offload"),
            )
        if config.use_precision_aware_optimizer is False:
            yield Finding(
                "--no-use-precision-aware-optimizer with --optimizer-cpu-offload, whose optimizer always keeps the "
                "main weights itself",
                "drop --no-use-precision-aware-optimizer",
                ("--use-precision-aware-optimizer", "--optimizer-cpu-offload"),
            )
        return
    for name, given, why in (
        ("--overlap-cpu-optimizer-d2h-h2d", config.overlap_cpu_optimizer_d2h_h2d, "there is nothing to overlap"),
        ("--optimizer-offload-fraction", config.optimizer_offload_fraction != 1.0, "nothing is offloaded"),
        (
            "--use-precision-aware-optimizer",
            config.use_precision_aware_optimizer,
            "on the GPU it needs Transformer Engine's Adam, which the trainer does not use",
        ),
    ):
        if given:
            yield Finding(
                f"{name} without --optimizer-cpu-offload: {why}",
                f"add --optimizer-cpu-offload, or drop {name}",
                (name, "--optimizer-cpu-offload"),
            )


RULES = (
    Rule(
        id="learning-rate-range",
        title=Text("学习率的起点和下限不高于 --lr", "The rate starts and ends at or below --lr"),
        why=Text(
            "Megatron 的调度器只用断言拒绝，不说是哪个参数。",
            "Megatron's scheduler refuses the rest with an assertion that names no flag.",
        ),
        cfg=check_learning_rates,
    ),
    Rule(
        id="learning-rate-zero",
        severity="warning",
        title=Text("学习率不为 0 的步数就是要训练的步数", "Steps have a learning rate"),
        why=Text(
            "--min-lr 默认是 0，衰减结束之后的每一步都照常生成和计算，却什么也学不到。",
            "--min-lr is 0 by default: every step after the decay generates and computes, and learns nothing.",
        ),
        cfg=check_zero_rates,
    ),
    Rule(
        id="learning-rate-warmup",
        title=Text("学习率先升完，再降完", "The rate has risen before it has fallen"),
        why=Text(
            "升高不短于衰减时，衰减没有长度可言。",
            "A rise as long as the decay leaves the decay no steps.",
        ),
        cfg=check_warmup,
    ),
    Rule(
        id="weight-decay-range",
        title=Text("权重衰减要么不变，要么从起点增到终点", "Weight decay is constant, or grows from start to end"),
        why=Text(
            "起点、终点和方式要一起给出；少一个，就有一个值不起作用。",
            "Start, end and style belong together: with one missing, another has no effect.",
        ),
        cfg=check_weight_decay,
    ),
    Rule(
        id="optimizer-offload",
        title=Text(
            "卸载的细节与 --optimizer-cpu-offload 一起用", "Details of the offload come with --optimizer-cpu-offload"
        ),
        why=Text(
            "没有卸载时，这些参数什么也不做，却像是省了显存。",
            "Without the offload these flags do nothing, and look as if they saved memory.",
        ),
        cfg=check_offload,
    ),
)
