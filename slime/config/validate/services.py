"""Services beside the run: the health monitor, over-sampling without an end."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import counted

# What an engine takes at most to compile its kernels when no cache has them.
COLD_START_SECONDS = 300


def check_first_health_check(config: Config) -> Iterator[Finding]:
    """The health monitor lets an engine compile before it looks."""
    wait = config.rollout_health_check_first_wait
    if config.use_fault_tolerance and wait < COLD_START_SECONDS:
        yield Finding(
            f"--use-fault-tolerance looks at an engine {wait:g} s after its start, and one that compiles its kernels "
            f"for the first time may not answer for {COLD_START_SECONDS} s: the monitor would end it",
            f"give --rollout-health-check-first-wait {COLD_START_SECONDS}",
            ("--rollout-health-check-first-wait", "--use-fault-tolerance"),
        )


def check_refills(config: Config) -> Iterator[Finding]:
    """A round that drops groups may refill often enough to replace them."""
    if config.dynamic_sampling_filter_path is None:
        return
    refill = config.over_sampling_batch_size or config.rollout_batch_size
    most = config.dynamic_sampling_max_rounds * refill
    if most < 2 * config.rollout_batch_size:
        yield Finding(
            f"--dynamic-sampling-max-rounds {config.dynamic_sampling_max_rounds}: that many refills of {refill} "
            "prompts are "
            f"{counted(most, 'group')} for a round of {config.rollout_batch_size}, so a filter that drops half of "
            "them ends "
            "the run",
            f"give --dynamic-sampling-max-rounds {-(-4 * config.rollout_batch_size // refill)} or more",
            ("--dynamic-sampling-max-rounds", "--over-sampling-batch-size"),
        )


RULES = (
    Rule(
        id="refills",
        row=35,
        source="DAPO#22, verl#953, miles#853",
        severity="warning",
        title=Text("过滤掉的组补得回来，补充次数有上限", "Filtered groups can be replaced, and refills have an end"),
        why=Text(
            "每组都全对或全错时，没有上限的补充永远不会停。这里总有上限，但上限太小也凑不齐一轮。",
            "When every group is all right or all wrong, refilling without a cap never ends. Here there always is a "
            "cap; one "
            "that is too small leaves a round short.",
        ),
        cfg=check_refills,
    ),
    Rule(
        id="first-health-check",
        row=66,
        source="",
        severity="warning",
        title=Text("第一次健康检查等引擎编译完", "The first health check waits for the engine to compile"),
        why=Text(
            "首次启动要编译 kernel；监控过早检查，会把正在编译的引擎当作失败而终止。",
            "The first start compiles kernels; a monitor that looks too early ends an engine that is still compiling.",
        ),
        cfg=check_first_health_check,
    ),
)
